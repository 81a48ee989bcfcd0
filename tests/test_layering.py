"""Imports run one way, torch stays out of the light rooms, inference libraries stay in `engines/`."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "evseq"

ORDER = (
    ("errors", "versions"),
    ("crew",),
    ("post", "connecting"),
    ("seat",),
    ("cluster",),
    ("history", "geometry", "check"),
    ("cache",),
    ("script",),
    ("engines",),
    ("replay",),
    ("checking", "verdict"),
    ("part",),
    ("golden", "report"),
    ("judging", "stamp", "run_settings"),
    ("running",),
    ("premises",),
    ("elsewhere",),
    ("playing",),
    ("pipeline",),
    ("faults", "settings"),
    ("audit", "project", "flags", "ending"),
    ("config", "decisions"),
    ("store_commands",),
    ("qualifier", "golden_commands", "audit_command", "run_commands", "pytest_session"),
    ("cli", "pytest_plugin"),
    ("__main__", "__init__"),
)
"""The rooms, first to last. A room may import itself and those of earlier lines, not its neighbours."""

RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}

WITHOUT_TORCH = (
    "errors.py",
    "history.py",
    "geometry.py",
    "check.py",
    "script/",
    "cache/identity.py",
    "verdict/result.py",
)
"""Files that never import torch, not even late."""

LIGHT = (
    *WITHOUT_TORCH,
    "report/",
    "checking.py",
    "settings.py",
    "project.py",
    "config.py",
    "flags.py",
    "ending.py",
    "qualifier.py",
    "store_commands.py",
    "pytest_session.py",
    "golden_commands.py",
    "audit_command.py",
    "run_commands.py",
    "cli.py",
    "pytest_plugin.py",
    "__init__.py",
    "__main__.py",
)
"""Files whose import never brings torch in, by whatever way; front ends load it when there is work for it."""

INFERENCE = frozenset(
    {"ctranslate2", "exllamav2", "gguf", "llama_cpp", "mlc_llm", "mlx", "mlx_lm", "onnxruntime", "onnxruntime_genai"}
    | {"openvino", "openvino_genai", "sglang", "tensorrt_llm", "tokenizers", "transformers", "vllm"}
)


class When(StrEnum):
    """When an import takes place."""

    IMPORT = "at import"
    CALL = "when called"
    TYPES = "for types"


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One imported module, and where and when."""

    file: Path
    line: int
    module: str
    when: When


def imports(package: Path) -> Iterator[Import]:
    """Find every import statement under `package`, those inside functions and `TYPE_CHECKING` blocks too."""
    for file in sorted(package.rglob("*.py")):
        yield from _imports(ast.parse(file.read_text(encoding="utf-8")), package, file, When.IMPORT)


def _imports(node: ast.AST, package: Path, file: Path, when: When) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import() | ast.ImportFrom():
                for module in _modules(child, file.relative_to(package.parent)):
                    yield Import(file=file.relative_to(package), line=child.lineno, module=module, when=when)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _imports(child, package, file, When.CALL if when is When.IMPORT else when)
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body, orelse=rest):
                yield from _imports(ast.Module(body=body, type_ignores=[]), package, file, When.TYPES)
                yield from _imports(ast.Module(body=rest, type_ignores=[]), package, file, when)
            case _:
                yield from _imports(child, package, file, when)


def _modules(statement: ast.Import | ast.ImportFrom, file: Path) -> list[str]:
    names = [name.name for name in statement.names]
    match statement:
        case ast.Import():
            return names
        case ast.ImportFrom(module=module, level=level):
            parents = file.parent.parts[: len(file.parent.parts) - level + 1] if level else ()
            return [".".join([*parents, *([module] if module else []), name]) for name in names]


def room_of_file(file: Path) -> str:
    return file.parts[0].removesuffix(".py")


def room_of_module(module: str) -> str | None:
    """Return the room an absolute name leads to; a name the package itself binds leads to its front."""
    top, *rest = module.split(".")
    if top != "evseq":
        return None
    return rest[0] if rest and rest[0] in RANK else "__init__"


def against_the_order(package: Path) -> list[str]:
    """List imports that run upward or sideways, and rooms that have no place in the order."""
    rooms = {room_of_file(file.relative_to(package)) for file in package.rglob("*.py")}
    found = [f"{room}: no place in the order of rooms" for room in sorted(rooms - set(RANK))]
    for one in imports(package):
        here, there = room_of_file(one.file), room_of_module(one.module)
        if here in RANK and there is not None and here != there and RANK[there] >= RANK[here]:
            found.append(f"{one.file.as_posix()}:{one.line}: {here} imports {one.module} {one.when}")
    return found


def torch_in_light_files(package: Path) -> list[str]:
    """List imports of torch in files that do without."""
    return [
        f"{one.file.as_posix()}:{one.line}: imports {one.module} {one.when}"
        for one in imports(package)
        if one.module.split(".")[0] == "torch" or one.module.startswith("safetensors.torch")
        if one.when is not When.TYPES and one.file.as_posix().startswith(WITHOUT_TORCH)
    ]


def inference_outside_engines(package: Path) -> list[str]:
    """List imports of inference libraries anywhere but under `engines/`."""
    return [
        f"{one.file.as_posix()}:{one.line}: imports {one.module} {one.when}"
        for one in imports(package)
        if one.module.split(".")[0] in INFERENCE and room_of_file(one.file) != "engines"
    ]


def torch_after_import(package: Path) -> str:
    """Import the light files in a new process, one after the other; say which one brings torch in."""
    files = sorted(file.relative_to(package) for file in package.rglob("*.py"))
    light = [file for file in files if file.as_posix().startswith(LIGHT)]
    names = [".".join(("evseq", *file.with_suffix("").parts)).removesuffix(".__init__") for file in light]
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_EACH, *names], cwd=package.parent, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


IMPORT_EACH = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    if "torch" in sys.modules:
        sys.exit(f"{name} loads torch")
"""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """Return a small package with the rooms of the real one, to plant a fault in."""
    package = tmp_path / "evseq"
    for room in ("cache", "engines", "script", "verdict"):
        (package / room).mkdir(parents=True)
        (package / room / "__init__.py").touch()
    for module in ("__init__", "cli", "errors", "geometry", "history", "pipeline"):
        (package / f"{module}.py").touch()
    return package


class TestOrder:
    def test_the_package_imports_one_way(self) -> None:
        assert against_the_order(PACKAGE) == []

    def test_an_import_of_an_earlier_room_is_fine(self, planted: Path) -> None:
        (planted / "engines" / "protocol.py").write_text("from evseq.cache import state\nfrom evseq import errors\n")
        assert against_the_order(planted) == []

    def test_an_import_within_a_room_is_fine(self, planted: Path) -> None:
        (planted / "script" / "plan.py").write_text("from evseq.script.events import Event\n")
        assert against_the_order(planted) == []

    def test_an_import_of_a_later_room_is_found(self, planted: Path) -> None:
        (planted / "cache" / "guard.py").write_text("import os\n\nfrom evseq.verdict.result import Result\n")
        assert against_the_order(planted) == ["cache/guard.py:3: cache imports evseq.verdict.result.Result at import"]

    def test_an_import_inside_a_function_is_found(self, planted: Path) -> None:
        (planted / "errors.py").write_text("def why():\n    import evseq.pipeline\n")
        assert against_the_order(planted) == ["errors.py:2: errors imports evseq.pipeline when called"]

    def test_an_import_for_types_is_found(self, planted: Path) -> None:
        text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from evseq.engines import protocol\n"
        (planted / "script" / "plan.py").write_text(text)
        assert against_the_order(planted) == ["script/plan.py:3: script imports evseq.engines.protocol for types"]

    def test_a_relative_import_is_found(self, planted: Path) -> None:
        (planted / "script" / "plan.py").write_text("from ..replay.player import play\n")
        assert against_the_order(planted) == ["script/plan.py:1: script imports evseq.replay.player.play at import"]

    def test_a_neighbour_is_found(self, planted: Path) -> None:
        (planted / "history.py").write_text("from evseq.geometry import Geometry\n")
        assert against_the_order(planted) == ["history.py:1: history imports evseq.geometry.Geometry at import"]

    def test_the_front_of_the_package_is_not_for_its_rooms(self, planted: Path) -> None:
        (planted / "pipeline.py").write_text("from evseq import Result\n")
        assert against_the_order(planted) == ["pipeline.py:1: pipeline imports evseq.Result at import"]

    def test_a_room_without_a_place_is_found(self, planted: Path) -> None:
        (planted / "helpers.py").touch()
        assert against_the_order(planted) == ["helpers: no place in the order of rooms"]


class TestTorch:
    def test_the_light_files_do_without(self) -> None:
        assert torch_in_light_files(PACKAGE) == []

    def test_torch_for_types_is_fine(self, planted: Path) -> None:
        text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n"
        (planted / "verdict" / "result.py").write_text(text)
        assert torch_in_light_files(planted) == []

    def test_torch_in_a_heavy_file_is_fine(self, planted: Path) -> None:
        (planted / "verdict" / "compare.py").write_text("from torch import Tensor\n")
        assert torch_in_light_files(planted) == []

    def test_torch_at_import_is_found(self, planted: Path) -> None:
        (planted / "verdict" / "result.py").write_text("from torch import Tensor\n")
        assert torch_in_light_files(planted) == ["verdict/result.py:1: imports torch.Tensor at import"]

    def test_torch_inside_a_function_is_found(self, planted: Path) -> None:
        (planted / "script" / "plan.py").write_text("def plan():\n    from safetensors.torch import load\n")
        assert torch_in_light_files(planted) == ["script/plan.py:2: imports safetensors.torch.load when called"]

    def test_importing_the_light_files_loads_no_torch(self) -> None:
        assert torch_after_import(PACKAGE) == ""

    def test_torch_through_another_module_is_found(self, planted: Path) -> None:
        (planted.parent / "torch.py").touch()
        (planted / "cache" / "state.py").write_text("import torch\n")
        (planted / "script" / "plan.py").write_text("from evseq.cache import state\n")
        assert torch_after_import(planted) == "evseq.script.plan loads torch\n"


class TestInference:
    def test_the_package_keeps_inference_libraries_in_engines(self) -> None:
        assert inference_outside_engines(PACKAGE) == []

    def test_a_library_under_engines_is_fine(self, planted: Path) -> None:
        (planted / "engines" / "transformers.py").write_text("import transformers\n")
        assert inference_outside_engines(planted) == []

    def test_a_library_elsewhere_is_found_also_late(self, planted: Path) -> None:
        (planted / "pipeline.py").write_text("def qualify():\n    from transformers import AutoModel\n")
        assert inference_outside_engines(planted) == ["pipeline.py:2: imports transformers.AutoModel when called"]
