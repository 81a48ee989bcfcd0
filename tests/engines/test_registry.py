"""A target text becomes a loader, or an error that says what would."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from evseq.engines import registry
from evseq.engines.reference.config import NAMES
from evseq.engines.reference.loader import ReferenceLoader
from evseq.errors import TargetError

YOURS = "your own is MODULE:ATTRIBUTE with the module's folder on PYTHONPATH"

MODULE = """
from evseq.engines.reference.loader import ReferenceLoader
from evseq.errors import TargetError

class Mine(ReferenceLoader):
    def __init__(self):
        super().__init__(name="full")

ready = ReferenceLoader(name="window")
number = 7

def broken():
    return 1 / 0

def quits():
    raise SystemExit("no GPU")

def picky():
    raise TargetError("choose a model")
"""


STOPS = """
def configurations():
    raise SystemExit(0)

def loader(rest):
    raise SystemExit(0)
"""
AUTHORS = "update the package that provides this engine, or tell its authors"


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install three engines: ours, one that must be told what to load, and one whose module lacks a package."""
    named = {"reference": "evseq.engines.reference", "told": "told", "needy": "needy", "extra": "evseq.absent"}
    named |= {"quitting": "quitting", "stops": "stops"}
    entries = [EntryPoint(name=name, value=value, group=registry.GROUP) for name, value in named.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry for entry in entries if entry.group == group])


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put modules of a user on the path."""
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "told.py").write_text("def configurations():\n    return ()\n\ndef loader(rest):\n    import absent\n")
    (tmp_path / "needy.py").write_text("import absent.part\n")
    (tmp_path / "raises.py").write_text("raise ValueError('no GPU')\n")
    (tmp_path / "quitting.py").write_text("import sys\nsys.exit('no GPU')\n")
    (tmp_path / "stops.py").write_text(STOPS)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("mine", "told", "needy", "raises", "quitting", "stops"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def refusal(text: str) -> str:
    with pytest.raises(TargetError) as error:
        registry.find(text)
    return str(error.value)


class TestTargets:
    def test_an_engine_alone_is_all_its_configurations(self) -> None:
        assert registry.targets("reference") == tuple(f"reference:{name}" for name in NAMES)

    def test_a_target_is_itself(self) -> None:
        assert registry.targets("reference:window") == ("reference:window",)

    def test_a_module_is_itself(self) -> None:
        assert registry.targets("mine:Mine") == ("mine:Mine",)

    @pytest.mark.usefixtures("engines", "modules")
    def test_an_engine_without_configurations_must_be_told(self) -> None:
        with pytest.raises(TargetError) as error:
            registry.targets("told")
        assert str(error.value) == "told: this engine must be told what to load\n  help: write 'told:WHAT'"

    @pytest.mark.usefixtures("engines")
    def test_an_unknown_engine_is_answered_with_the_nearest(self) -> None:
        with pytest.raises(TargetError) as error:
            registry.targets("refrence")
        assert str(error.value) == (
            "refrence: no engine 'refrence'\n"
            f"  help: did you mean 'reference'? engines are extra, needy, quitting, reference, stops, told; {YOURS}"
        )


class TestEngines:
    def test_a_configuration_is_found(self) -> None:
        assert registry.find("reference:alibi") == ReferenceLoader(name="alibi")

    def test_an_unknown_configuration_is_answered_with_the_nearest(self) -> None:
        assert refusal("reference:windw") == (
            "reference:windw: no configuration 'windw'\n  help: did you mean 'reference:window'? "
            "known are full, window, learned, alibi, narrow; 'reference' alone means all of them"
        )

    def test_a_configuration_like_no_other_lists_them(self) -> None:
        assert refusal("reference:") == (
            "reference:: no configuration ''\n"
            "  help: known are full, window, learned, alibi, narrow; 'reference' alone means all of them"
        )

    def test_several_targets_are_not_one(self) -> None:
        assert refusal("reference") == (
            "reference: stands for 5 targets, one is wanted\n  help: choose one of "
            "reference:full, reference:window, reference:learned, reference:alibi, reference:narrow"
        )

    @pytest.mark.usefixtures("engines")
    def test_an_unknown_engine_keeps_the_rest_of_the_text(self) -> None:
        assert refusal("refrence:full") == (
            "refrence:full: no engine or module 'refrence'\n"
            "  help: did you mean 'reference:full'? "
            f"engines are extra, needy, quitting, reference, stops, told; {YOURS}"
        )

    @pytest.mark.usefixtures("engines")
    def test_a_missing_extra_of_evseq_names_the_command(self) -> None:
        assert refusal("extra:PATH") == (
            "extra:PATH: module 'evseq.absent' is not installed\n  help: pip install 'evseq[extra]'"
        )

    @pytest.mark.usefixtures("engines", "modules")
    def test_a_missing_package_of_another_engine_is_named(self) -> None:
        assert refusal("needy:x") == (
            "needy:x: module 'absent' is not installed\n  help: install the package that provides 'absent'"
        )

    @pytest.mark.usefixtures("engines", "modules")
    def test_a_package_missed_later_is_named(self) -> None:
        assert refusal("told:x") == (
            "told:x: module 'absent' is not installed\n  help: install the package that provides 'absent'"
        )

    @pytest.mark.usefixtures("engines", "modules")
    def test_an_engine_that_ends_the_process_when_imported_is_refused(self) -> None:
        assert refusal("quitting:x") == (
            f"quitting:x: importing 'quitting' failed: SystemExit: no GPU\n  help: {AUTHORS}"
        )

    @pytest.mark.usefixtures("engines", "modules")
    def test_an_engine_that_ends_the_process_when_asked_is_refused(self) -> None:
        assert refusal("stops:x") == f"stops:x: finding its loader failed: SystemExit: 0\n  help: {AUTHORS}"
        with pytest.raises(TargetError) as error:
            registry.targets("stops")
        assert str(error.value) == f"stops: naming its configurations failed: SystemExit: 0\n  help: {AUTHORS}"


@pytest.mark.usefixtures("engines", "modules")
class TestModules:
    def test_a_loader_that_ends_the_process_is_refused(self) -> None:
        assert refusal("mine:quits") == (
            "mine:quits: calling it failed: SystemExit: no GPU\n"
            "  help: it must be a loader, or return one when called without arguments"
        )

    def test_a_loader_is_taken_as_it_is(self) -> None:
        assert registry.find("mine:ready") == ReferenceLoader(name="window")

    def test_a_class_is_called(self) -> None:
        assert registry.find("mine:Mine").describe() == ReferenceLoader(name="full").describe()

    def test_a_module_that_is_not_there(self) -> None:
        assert refusal("nowhere.mod:x") == (
            "nowhere.mod:x: no engine or module 'nowhere.mod'\n"
            f"  help: engines are extra, needy, quitting, reference, stops, told; {YOURS}"
        )

    def test_a_module_that_lacks_a_package(self) -> None:
        assert refusal("needy.x:y") == (
            "needy.x:y: module 'needy.x' needs 'absent', which is not installed\n  help: install it"
        )

    def test_a_module_that_cannot_be_imported(self) -> None:
        assert refusal("raises:x") == (
            "raises:x: importing 'raises' failed: ValueError: no GPU\n"
            "  help: make 'python -c \"import raises\"' work first"
        )

    def test_an_attribute_that_is_not_there(self) -> None:
        assert (
            refusal("mine:redy")
            == "mine:redy: module 'mine' has no attribute 'redy'\n  help: did you mean 'mine:ready'?"
        )

    def test_an_attribute_like_no_other(self) -> None:
        assert refusal("mine:xyz") == (
            "mine:xyz: module 'mine' has no attribute 'xyz'\n  help: name a loader, or what returns one"
        )

    def test_an_attribute_that_is_no_loader(self) -> None:
        assert refusal("mine:number") == (
            "mine:number: int is no loader, it has no describe and no tokenize and no load\n"
            "  help: write the methods of evseq.engines.protocol.Loader"
        )

    def test_a_callable_that_says_why(self) -> None:
        assert refusal("mine:picky") == "choose a model"

    def test_a_callable_that_raises(self) -> None:
        assert refusal("mine:broken") == (
            "mine:broken: calling it failed: ZeroDivisionError: division by zero\n"
            "  help: it must be a loader, or return one when called without arguments"
        )


DESCRIBE = """
import sys
from evseq.engines import registry
registry.find("reference:full").describe()
print("torch" in sys.modules)
"""


def test_describing_the_reference_loads_no_torch() -> None:
    done = subprocess.run([sys.executable, "-c", DESCRIBE], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
