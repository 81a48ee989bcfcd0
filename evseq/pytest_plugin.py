"""The pytest plugin: `*.evseq.yaml` files become tests, one a case, and `evseq` is a fixture.

A case is called `path::name[arm-arm][target]`. Nothing heavy is loaded before a script is collected, and torch not
before one runs. Settings are those of the command line, with `--evseq-target`, `--evseq-arms`, `--evseq-arm` and
`--evseq-threads` as flags. Where nothing but cases is collected and none is supported, the exit status is that of no
tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evseq.config import Config, configure
from evseq.errors import EvseqError, UsageError
from evseq.settings import SETTINGS
from evseq.verdict.result import Case, Finding, Outcome, Result

if TYPE_CHECKING:
    from evseq.pipeline import Run, Settings
    from evseq.script.cases import CaseArms
    from evseq.script.document import Script

__all__ = ["Qualifier", "ScriptCase", "ScriptFile", "evseq"]

SUFFIX = ".evseq.yaml"
FLAGS = ("target", "arms", "arm", "threads")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flags."""
    group = parser.getgroup("evseq", "event scripts (evseq)")
    for name in FLAGS:
        setting = SETTINGS[name]
        group.addoption(
            f"--evseq-{name}",
            action="append" if setting.many else "store",
            metavar=setting.metavar.replace("|", "/"),
            help=setting.help,
        )


def pytest_configure(config: pytest.Config) -> None:
    """Keep a place for what the session opens, and close it at the end whatever happens."""
    session = _Session()
    config.stash[_SESSION] = session
    config.add_cleanup(session.close)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScriptFile | None:
    """Collect a script."""
    return ScriptFile.from_parent(parent, path=file_path) if file_path.name.endswith(SUFFIX) else None


def pytest_collection_modifyitems(config: pytest.Config) -> None:
    """Refuse a filter of arms that fits none of the collected scripts; only all of them together can tell."""
    scripts = config.stash[_SESSION].scripts
    if not scripts:
        return
    from evseq.script.filters import check_filters

    chosen = _chosen(config)
    said = str(chosen.origins["arm"]).replace("--arm", "--evseq-arm")
    try:
        check_filters(scripts, chosen.arm, targets=chosen.open_names(), said=said)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Let models go, and give torch its threads back, before a test of another kind runs."""
    if isinstance(item, ScriptCase) and not isinstance(nextitem, ScriptCase):
        item.config.stash[_SESSION].close()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Say that nothing was tested where there were only cases and no target supports any."""
    unsupported = session.config.stash[_SESSION].unsupported
    if exitstatus == pytest.ExitCode.OK and session.items and unsupported.issuperset(session.items):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


_Arms = frozenset[tuple[str, int | str]]
"""The arms of a case by name and value. Its id is no key: values joined by dashes may be those of another case."""


@dataclass(slots=True)
class _Session:
    """What one pytest run keeps open, and what it found out, by script file and target."""

    run: Run | None = None
    stack: ExitStack = field(default_factory=ExitStack)
    results: dict[tuple[Path, str], dict[_Arms, Case]] = field(default_factory=dict)
    scripts: list[Script] = field(default_factory=list)
    unsupported: set[pytest.Item] = field(default_factory=set)
    _arithmetic: tuple[Finding, ...] | None = None

    def arithmetic(self) -> tuple[Finding, ...]:
        """Return what is wrong with one head's arithmetic, computed once: before any model is blamed."""
        from evseq.verdict.arithmetic import one_head

        if self._arithmetic is None:
            self._arithmetic = one_head()
        return self._arithmetic

    def opened(self, settings: Settings) -> Run:
        """Return what targets are opened in, the same until it is closed."""
        from evseq.pipeline import Run

        if self.run is None:
            self.run = self.stack.enter_context(Run(settings))
        return self.run

    def close(self) -> None:
        """Close what is open; results stay."""
        self.run = None
        self.stack.close()


_SESSION = pytest.StashKey[_Session]()


class CaseFailedError(Exception):
    """A case failed; the text is the report's."""


class ScriptFile(pytest.File):
    """One script file."""

    def collect(self) -> Iterator[ScriptCase]:
        """Give one item per case of each target. An error in the script is told without a traceback."""
        try:
            yield from self._cases()
        except EvseqError as error:
            raise self.CollectError(str(error)) from None

    def _cases(self) -> Iterator[ScriptCase]:
        from evseq import pipeline
        from evseq.engines import registry

        chosen = _chosen(self.config)
        settings = pipeline.Settings(mode=chosen.arms, only=chosen.arm, threads=chosen.threads)
        (script,) = pipeline.read_scripts([self.path])
        self.config.stash[_SESSION].scripts.append(script)
        taken: Counter[str] = Counter()
        named = script.targets or chosen.open_names()
        for target in dict.fromkeys(single for text in named for single in registry.targets(text)):
            pipeline.check([script], target, settings)
            for case in pipeline.selected(script, target, settings):
                name = f"{script.name}[{case.id}][{target}]"
                taken[name] += 1
                yield ScriptCase.from_parent(
                    self,
                    name=name if taken[name] == 1 else f"{name}#{taken[name]}",
                    script=script,
                    target=target,
                    case=case,
                    settings=settings,
                )


class ScriptCase(pytest.Item):
    """One script in one arm on one target."""

    def __init__(self, *, script: Script, target: str, case: CaseArms, settings: Settings, **given: Any) -> None:
        super().__init__(**given)
        self.script = script
        self.target = target
        self.case = case
        self.settings = settings

    def runtest(self) -> None:
        """Judge the case; what the session selected of its script and target is played together, on first use."""
        from evseq.report.failure import case_text, finding_text

        if arithmetic := self.config.stash[_SESSION].arithmetic():
            raise CaseFailedError("\n".join(finding_text(finding) for finding in arithmetic))
        case = self._results()[_arms(self.case)]
        if case.outcome is Outcome.UNSUPPORTED:
            self.config.stash[_SESSION].unsupported.add(self)
            # At the script, not at this line: the summary says which one.
            raise pytest.skip.Exception(case.reason or "unsupported", _use_item_location=True)
        if case.outcome is Outcome.FAILED:
            raise CaseFailedError(case_text(case))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Tell a failure in the report's words, without a traceback."""
        if isinstance(excinfo.value, (CaseFailedError, EvseqError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Say where the case stands."""
        return self.path, 0, self.name

    def _results(self) -> Mapping[_Arms, Case]:
        session, key = self.config.stash[_SESSION], (self.path, self.target)
        if key not in session.results:
            group = [
                item for item in self.session.items if isinstance(item, ScriptCase) and (item.path, item.target) == key
            ]
            run = session.opened(self.settings)
            played = run.run_script(self.script, self.target, [item.case for item in group])
            session.results[key] = {_arms(item.case): case for item, case in zip(group, played.cases, strict=True)}
        return session.results[key]


@dataclass(frozen=True, slots=True)
class Qualifier:
    """What the fixture gives: call it to qualify a target or a model in memory, or assert that it passes."""

    config: Config

    def __call__(self, target: str | object, scripts: str | Sequence[str | Path] = "suite") -> Result:
        """Return the result of `scripts`, files or folders or the shipped suite, on `target`."""
        from evseq.pipeline import Settings, qualify

        chosen = self.config
        named = chosen.targets.get(target, target) if isinstance(target, str) else target
        return qualify(named, scripts, settings=Settings(mode=chosen.arms, only=chosen.arm, threads=chosen.threads))

    def assert_qualified(self, target: str | object, scripts: str | Sequence[str | Path] = "suite") -> Result:
        """Fail the test with the report unless `target` passes; return the result if it does."""
        from evseq.report.terminal import text

        __tracebackhide__ = True
        result = self(target, scripts)
        if not result.passed:
            pytest.fail(text(result), pytrace=False)
        return result


@pytest.fixture(scope="session")
def evseq(pytestconfig: pytest.Config) -> Qualifier:
    """Qualify a target or a model in memory with event scripts: `evseq.assert_qualified(model)`."""
    return Qualifier(_chosen(pytestconfig))


def _arms(case: CaseArms) -> _Arms:
    return frozenset(case.arms.items())


def _chosen(config: pytest.Config) -> Config:
    given = {name: config.getoption(f"evseq_{name}") for name in FLAGS}
    return configure(
        {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()},
        folder=config.rootpath,
    )
