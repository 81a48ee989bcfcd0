"""The pytest plugin: `*.evseq.yaml` files become tests, one a case, and `evseq` is a fixture.

A case is called `path::name[arm-arm][target]`. Nothing heavy is loaded before a script is collected, and torch not
before one runs. Settings are those of the command line, with `--evseq-` before a flag's name. Where nothing but cases
is collected and none is supported, on any target or on one that was asked for, the exit status is that of no tests.
A case that `known.yaml` says fails is expected to, strictly. A session that writes candidates of goldens has failed;
so has one in which an `allow` tolerates nothing though every case of its script ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evseq.config import Config, configure
from evseq.errors import EvseqError, UsageError
from evseq.pytest_session import Key, Session, arms_of
from evseq.qualifier import Qualifier
from evseq.settings import SETTINGS, UPDATE
from evseq.verdict.result import Case, Outcome

if TYPE_CHECKING:
    from evseq.pipeline import Settings
    from evseq.script.cases import CaseArms
    from evseq.script.document import Script

__all__ = ["Qualifier", "ScriptCase", "ScriptFile", "evseq"]

SUFFIX = ".evseq.yaml"
FLAGS = ("target", "arms", "arm", "threads", "known", "goldens", "revision", "require-goldens", "golden-form")
ELSEWHERE = ("workers", "scheduler", "jsonl", "record")  # of `evseq run`


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flags."""
    group = parser.getgroup("evseq", "event scripts (evseq)")
    for name in FLAGS:
        setting = SETTINGS[name]
        if setting.switch:  # left out, it says nothing: the environment or the project may
            group.addoption(f"--evseq-{name}", action="store_true", default=None, help=setting.help)
            continue
        group.addoption(
            f"--evseq-{name}",
            action="append" if setting.many else "store",
            metavar=setting.metavar.replace("|", "/"),
            help=setting.help,
        )
    group.addoption("--evseq-update-goldens", action="store_true", help=UPDATE)


def pytest_configure(config: pytest.Config) -> None:
    """Keep a place for what the session opens, and close it at the end whatever happens."""
    if config.getoption("evseq_golden_form") and not config.getoption("evseq_update_goldens"):
        raise pytest.UsageError(
            "--evseq-golden-form says nothing without --evseq-update-goldens\n  help: say both, or neither"
        )
    session = Session()
    config.stash[_SESSION] = session
    config.add_cleanup(session.close)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name the settings of project and environment that somebody said and that do nothing here."""
    try:
        origins = _chosen(config).origins
    except EvseqError:  # told where a script is collected, if one is
        return []
    idle = [f"{name} ({origins[name]})" for name in ELSEWHERE if origins[name].rank]
    return [f"evseq: cases are played here, whatever {', '.join(idle)} may say"] if idle else []


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScriptFile | None:
    """Collect a script."""
    return ScriptFile.from_parent(parent, path=file_path) if file_path.name.endswith(SUFFIX) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse a filter of arms that fits none of the collected scripts; only all of them together can tell."""
    session = config.stash[_SESSION]
    if not session.scripts:
        return
    from evseq.script.filters import check_filters, check_offered

    chosen = _chosen(config)
    said = str(chosen.origins["arm"]).replace("--arm", "--evseq-arm")
    try:
        check_filters(session.scripts, chosen.arm, targets=chosen.open_names(), said=said)
        check_offered(session.scripts, chosen.arm, offered=session.offered, said=said)
    except UsageError as error:
        if not hasattr(config, "workeroutput"):
            raise pytest.UsageError(str(error)) from None
        session.found.refused = str(error)  # told by the process that reports: pytest-xdist knows no wrong usage
        items.clear()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Let models go, and give torch its threads back, before a test of another kind runs."""
    if isinstance(item, ScriptCase) and not isinstance(nextitem, ScriptCase):
        item.config.stash[_SESSION].close()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Take note of what will run."""
    found = session.config.stash[_SESSION].found
    found.selected = {item.key for item in session.items if isinstance(item, ScriptCase)}
    found.others = any(not isinstance(item, ScriptCase) for item in session.items)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Say that nothing was tested where there were only cases and a target supports none; fail if candidates came.

    A worker of pytest-xdist tells the process that reports what it found.
    """
    found, config = session.config.stash[_SESSION].found, session.config
    if (output := getattr(config, "workeroutput", None)) is not None:
        output[_TOLD] = found.told()
        return
    ran = exitstatus == pytest.ExitCode.OK and not config.option.collectonly
    if ran and found.selected and found.nothing(_asked(config)):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
    if found.refused:
        session.exitstatus = pytest.ExitCode.USAGE_ERROR
    weak = found.candidates or (found.results and found.idle(_chosen(config).arm))
    if weak and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if found.unwritten and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.USAGE_ERROR


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hear what a worker of pytest-xdist found; one that died has told nothing, and its test has failed."""
    if told := getattr(node, "workeroutput", {}).get(_TOLD):
        node.config.stash[_SESSION].found.hear(told)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """List candidates that were written, allowances nobody used, and targets asked for on which nothing was judged."""
    from evseq.report.failure import finding_text

    found = config.stash[_SESSION].found
    if found.refused:
        terminalreporter.section("evseq: wrong usage")
        terminalreporter.line(found.refused)
        return
    if found.results and (idle := found.idle(_chosen(config).arm)):
        terminalreporter.section("evseq: allowances that tolerate nothing")
        for finding in idle:
            terminalreporter.line(finding_text(finding))
    if found.candidates:
        terminalreporter.section("evseq: candidates written")
        for path in found.candidates:
            terminalreporter.line(path)
        terminalreporter.line("help: evseq golden review")
    if found.unwritten:
        terminalreporter.section("evseq: not written")
        for message in found.unwritten:
            terminalreporter.line(message)
    for target in found.unjudged(_asked(config)) if found.collected and not config.option.collectonly else ():
        terminalreporter.section(f"evseq: no case was judged on {target}")


_TOLD = "evseq"
"""Where in a worker's output that stands."""

_SESSION = pytest.StashKey[Session]()


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
        from evseq.replay.opening import described
        from evseq.verdict.known import known_file, read_known

        chosen = _chosen(self.config)
        settings = _settings(self.config)
        session = self.config.stash[_SESSION]
        (script,) = pipeline.read_scripts([self.path])
        if file := known_file(script, settings.known):
            read_known(file)  # what is wrong with it is told before anything runs
        session.scripts.append(script)
        taken: Counter[str] = Counter()
        named = script.targets or chosen.open_names()
        for target in dict.fromkeys(single for text in named for single in registry.targets(text)):
            pipeline.check([script], target, settings)
            session.offered[target] = described(target, registry.find(target))
            for case in pipeline.selected(script, target, settings):
                name = f"{script.name}[{case.id}][{target}]"
                taken[name] += 1
                item: ScriptCase = ScriptCase.from_parent(
                    self,
                    name=name if taken[name] == 1 else f"{name}#{taken[name]}",
                    script=script,
                    target=target,
                    case=case,
                    settings=settings,
                )
                session.found.collected[item.key] = None
                yield item


class ScriptCase(pytest.Item):
    """One script in one arm on one target."""

    def __init__(self, *, script: Script, target: str, case: CaseArms, settings: Settings, **given: Any) -> None:
        super().__init__(**given)
        self.script = script
        self.target = target
        self.case = case
        self.settings = settings

    @property
    def key(self) -> Key:
        """What it is found by."""
        return self.path, self.target, arms_of(self.case)

    def runtest(self) -> None:
        """Judge the case; what the session selected of its script and target is played together, on first use."""
        from evseq.report.failure import case_text, finding_text

        if arithmetic := self.config.stash[_SESSION].arithmetic():
            raise CaseFailedError("\n".join(finding_text(finding) for finding in arithmetic))
        case = self._results()[arms_of(self.case)]
        if case.outcome is Outcome.UNSUPPORTED:
            self.config.stash[_SESSION].found.unsupported.add(self.key)
            # At the script, not at this line: the summary says which one.
            raise pytest.skip.Exception(case.reason or "unsupported", _use_item_location=True)
        if case.outcome is Outcome.KNOWN and not self.config.getoption("runxfail", default=False):
            raise pytest.xfail.Exception("; ".join(f"{entry.reason} ({entry.link})" for entry in case.known))
        if case.outcome in (Outcome.FAILED, Outcome.KNOWN):
            raise CaseFailedError(case_text(case))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Tell a failure in the report's words, without a traceback."""
        if isinstance(excinfo.value, (CaseFailedError, EvseqError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Say where the case stands."""
        return self.path, 0, self.name

    def _results(self) -> Mapping[Any, Case]:
        session, key = self.config.stash[_SESSION], (self.path, self.target)
        results = session.found.results
        if key not in results:
            group = [
                item for item in self.session.items if isinstance(item, ScriptCase) and (item.path, item.target) == key
            ]
            run = session.opened(self.settings)
            run.check_writing([(self.script, self.target)])
            played = run.run_script(self.script, self.target, [item.case for item in group])
            session.found.candidates += played.candidates
            session.found.unwritten += played.unwritten
            results[key] = {arms_of(item.case): case for item, case in zip(group, played.cases, strict=True)}
        return results[key]


@pytest.fixture(scope="session")
def evseq(pytestconfig: pytest.Config) -> Qualifier:
    """Qualify a target or a model in memory with event scripts: `evseq.assert_qualified(model)`."""
    written = pytestconfig.stash[_SESSION].found.candidates
    return Qualifier(config=_chosen(pytestconfig), settings=_settings(pytestconfig), written=written)


def _chosen(config: pytest.Config) -> Config:
    attributes = [SETTINGS[name].attribute for name in FLAGS]
    given = {name: config.getoption(f"evseq_{name}") for name in attributes}
    return configure(
        {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()},
        folder=config.rootpath,
    )


def _settings(config: pytest.Config) -> Settings:
    from evseq.pipeline import Settings

    chosen = _chosen(config)
    terms = chosen.terms(update=config.getoption("evseq_update_goldens"))
    return Settings(mode=chosen.arms, only=chosen.arm, threads=chosen.threads, goldens=terms, known=chosen.known)


def _asked(config: pytest.Config) -> tuple[str, ...]:
    """Return the targets that somebody asks for in this session."""
    chosen = _chosen(config)
    return () if chosen.standing else chosen.open_names()
