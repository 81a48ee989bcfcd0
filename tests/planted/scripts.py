"""Scripts in which planted faults show."""

from __future__ import annotations

ROWS = """\
rows:
  a: {random: {length: 10, seed: 1}}
  b: [17, 4, 59, 3, 8, 21]
arms:
  dtype: [float64, float32]
"""


APPEND = f"""{ROWS}\
events:
  - prefill: {{rows: {{a: 7, b: 3}}}}
  - append: {{next: 2}}
"""


CROP = f"""{APPEND}\
  - crop: {{by: 1}}
  - append: {{ids: {{a: [5], b: [6]}}}}
"""


RELOAD = f"""{ROWS}\
events:
  - prefill: {{rows: {{a: 7, b: 3}}}}
  - serialize: {{to: mid}}
  - append: {{next: 2}}
  - reload: {{from: mid, as: again}}
  - append: {{next: 2, on: again}}
"""


CHANGED = f"""{ROWS}\
events:
  - prefill: {{rows: {{a: 7, b: 3}}}}
  - serialize: {{to: mid}}
  - mutate-prefix-token: {{row: b, index: 1, token: 24}}
  - reload: {{from: mid, as: changed, expect: {{refused: prefix.tokens}}}}
"""


FORK = f"""{ROWS}\
  cache: [fixed]
events:
  - prefill: {{rows: {{a: 7, b: 3}}}}
  - fork: {{as: twin}}
  - append: {{next: 1, on: twin}}
  - append: {{ids: {{a: [5], b: [6]}}}}
"""


HOLES = f"""{ROWS}\
  padding: [holes]
  chunk: [1]
events:
  - prefill: {{rows: {{a: 2, b: 2}}}}
"""


EVERYTHING = f"""{ROWS}\
  padding: [left, holes]
  cache: [growing, ring]
events:
  - prefill: {{rows: {{a: 7, b: 3}}}}
  - serialize: {{to: mid}}
  - append: {{next: 2}}
  - reload: {{from: mid, as: again, expect: {{reused: {{exactly: 10}}}}}}
  - append: {{next: 2, on: again}}
  - mutate-prefix-token: {{row: b, index: 1, token: 24}}
  - reload: {{from: mid, as: changed, expect: {{refused: prefix.tokens}}}}
  - fork: {{as: twin, on: again}}
  - append: {{next: 1, on: twin}}
  - crop: {{by: 1, on: again}}
  - append: {{ids: {{a: [5], b: [6]}}, on: again}}
  - beam-select: {{rows: {{x: b, y: a}}, on: twin}}
  - append: {{ids: {{x: [5], y: [6]}}, on: twin}}
  - probe: {{}}
"""
