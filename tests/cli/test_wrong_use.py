"""Every wrong use: one line on stderr, nothing on stdout, exit code 2, no traceback."""

from pathlib import Path

import pytest

from pgsom.checks import listed
from pgsom.cli import settings
from pgsom.cli.main import COMMANDS, main
from pgsom.curvature import ESTIMATORS, PROBED
from pgsom.environments import names as environment_names
from pgsom.methods import METHODS, method_options
from pgsom.policies.networks import ACTIVATIONS
from pgsom.presets import preset_names

ENVIRONMENTS = f"{listed(environment_names())}, and the ids of Gymnasium"
SECTIONS = "environments, methods, presets, estimators, schemes, baselines, shapes, policies"
SEEDS = "accepted is a whole number, or different ones such as 0,2,5"


def takers_of(option: str) -> str:
    """The methods that have the option, as an error names them."""
    return " or ".join(method for method in METHODS if option in method_options(method))


# The words after `pgsom`, and the whole line. The environment is small wherever one is built before the error shows.
COMMAND_LINES = [
    ("", f"pgsom: a command is missing; accepted are {', '.join(COMMANDS)} (or --help)"),
    ("trian", f"pgsom: command='trian': accepted are {', '.join(COMMANDS)}; did you mean 'train'?"),
    ("--versoin", "pgsom: option='--versoin': unknown; did you mean '--version'?"),
    ("--version=2", "pgsom: version='2': accepted is --version alone, without a value"),
    (
        "train CartPole-v1",
        "pgsom train: argument='CartPole-v1': unexpected; accepted are options, such as --name value",
    ),
    ("train --learning-rat 0.1", "pgsom train: option='--learning-rat': unknown; did you mean '--learning-rate'?"),
    ("train --learning_rate 0.1", "pgsom train: option='--learning_rate': unknown; did you mean '--learning-rate'?"),
    ("train --episode=3", "pgsom train: option='--episode': unknown; did you mean '--episodes'?"),
    ("train -seeds 8", "pgsom train: option='-seeds': unknown; did you mean '--seeds'?"),
    ("train --xyzzy", "pgsom train: option='--xyzzy': unknown; --help lists the options"),
    ("train --seeds", f"pgsom train: --seeds: its value is missing; {SEEDS}"),
    (
        "train --env --seeds 3",
        "pgsom train: --env: its value is missing; accepted is a name",
    ),
    (
        "train --reduction",
        "pgsom train: --reduction: its value is missing; accepted is one of sum, mean",
    ),
    ("train --seeds many", f"pgsom train: seeds='many': {SEEDS}"),
    ("train --seeds 1.5", f"pgsom train: seeds='1.5': {SEEDS}"),
    ("train --seeds 0,x", f"pgsom train: seeds='0,x': {SEEDS}"),
    ("train --seeds 0", "pgsom train: seeds=0: accepted is a whole number >= 1"),
    ("train --seeds -3", "pgsom train: seeds=-3: accepted is a whole number >= 1"),
    (
        "train --env three-state --seeds 1,1",
        "pgsom train: seeds=[1, 1]: accepted are a number of seeds or different seeds",
    ),
    ("train --episodes 5e2", "pgsom train: episodes='5e2': accepted is a whole number"),
    ("train --env three-state --episodes 0", "pgsom train: episodes=0: accepted is a whole number >= 1"),
    (
        "train --env three-state --episodes 3",
        "pgsom train: episodes=3: one update of pg-som takes 4; accepted is >= 4",
    ),
    ("train --env three-state --updates 0", "pgsom train: updates=0: accepted is a whole number >= 1"),
    (
        "train --env three-state --updates 5 --episodes 20",
        "pgsom train: updates=5: accepted is either updates or episodes, and episodes=20 is given",
    ),
    (
        "train --env three-state --seed -1",
        "pgsom train: seed=-1: accepted is a whole number >= 0 and <= 2147483647",
    ),
    ("train --evaluate -1", "pgsom train: evaluate=-1: accepted is a whole number >= 0"),
    ("train --evaluate all", "pgsom train: evaluate='all': accepted is a whole number"),
    (
        "train --env CartPol-v1",
        f"pgsom train: environment='CartPol-v1': accepted are {ENVIRONMENTS}; did you mean 'CartPole-v1'?",
    ),
    (
        "train --method pgsom",
        f"pgsom train: method='pgsom': accepted are {', '.join(METHODS)}; did you mean 'pg-som'?",
    ),
    (
        "train --preset reinforc",
        f"pgsom train: preset='reinforc': accepted are {', '.join(preset_names())}; did you mean 'reinforce'?",
    ),
    (
        "train --preset pg-som --method adam",
        "pgsom train: preset pg-som: option='damping': adam does not take it; "
        f"accepted with --method {takers_of('damping')}",
    ),
    (
        "train --method reinforce --beta1 0.5",
        f"pgsom train: option='beta1': reinforce does not take it; accepted with --method {takers_of('beta1')}",
    ),
    (
        "train --method adam --damping 1",
        f"pgsom train: option='damping': adam does not take it; accepted with --method {takers_of('damping')}",
    ),
    ("train --learning-rate fast", "pgsom train: learning_rate='fast': accepted is a number"),
    ("train --learning-rate nan", "pgsom train: learning_rate='nan': accepted is a number"),
    ("train --learning-rate -1", "pgsom train: learning_rate=-1: accepted is a number > 0"),
    ("train --learning-rate inf", "pgsom train: learning_rate=inf: accepted is a number > 0"),
    ("train --clip-norm -inf", "pgsom train: clip_norm=-inf: accepted is a number > 0 (inf: off)"),
    ("train --discount 1.5", "pgsom train: discount=1.5: accepted is a number >= 0 and <= 1"),
    ("train --beta1 1", "pgsom train: beta1=1: accepted is a number >= 0 and < 1"),
    (
        "train --bias-correction yes",
        "pgsom train: bias_correction='yes': accepted is true or false",
    ),
    (
        "train --reduction average",
        "pgsom train: reduction='average': accepted are sum, mean",
    ),
    (
        "train --shape absolut",
        "pgsom train: shape='absolut': accepted are raw, absolute, negative_part, rms; did you mean 'absolute'?",
    ),
    (
        "train --curvature gaus-newton",
        f"pgsom train: curvature='gaus-newton': accepted are {listed((*ESTIMATORS, *PROBED))}; "
        "did you mean 'gauss-newton'?",
    ),
    ("train --probes 2", "pgsom train: probes=2: the curvature 'gauss-newton' is exact; accepted is 0"),
    (
        "train --scheme heum",
        "pgsom train: scheme='heum': accepted are euler, heun, midpoint, ralston, rk4, paper; did you mean 'heun'?",
    ),
    ("train --scheme paper --alpha 2", "pgsom train: alpha=2: accepted is a number >= 0 and <= 1"),
    ("train --hidden 64,x", "pgsom train: hidden='64,x': accepted is whole numbers such as 64,64, or none"),
    ("train --env three-state --hidden 0", "pgsom train: hidden=0: accepted is a whole number >= 1"),
    (
        "train --activation gelo",
        f"pgsom train: activation='gelo': accepted are {listed(ACTIVATIONS)}; did you mean 'gelu'?",
    ),
    (
        "train --env three-state --policy linear",
        "pgsom train: policy='linear': three-state has whole-number states; accepted are tabular, mlp",
    ),
    ("train --json=yes", "pgsom train: json='yes': accepted is --json alone, without a value"),
    ("train --out=", "pgsom train: out='': accepted is a path"),
    (
        "train --config nowhere.toml",
        "pgsom train: config='nowhere.toml': cannot be read (No such file or directory); accepted is a TOML file",
    ),
    (
        "report",
        "pgsom report: a run is missing; accepted are folders of saved runs, as pgsom train --out makes them",
    ),
    (
        "report nowhere",
        "pgsom report: run='nowhere': accepted is the folder of a saved run, with settings.toml in it",
    ),
    ("report --ot x.html", "pgsom report: option='--ot': unknown; did you mean '--out'?"),
    (
        "list methds",
        f"pgsom list: section='methds': accepted are {SECTIONS}; did you mean 'methods'?",
    ),
    (
        "list methods schemes",
        "pgsom list: argument='schemes': unexpected; accepted are options, such as --name value",
    ),
    ("list --jsn", "pgsom list: option='--jsn': unknown; did you mean '--json'?"),
]

# The file's text, further words, and what follows `pgsom train: `; FILE stands for the file's path.
FILES = [
    ("learning_rat = 0.1", "", "FILE: key='learning_rat': unknown; did you mean 'learning_rate'?"),
    ("learning-rat = 0.1", "", "FILE: key='learning-rat': unknown; did you mean 'learning_rate'?"),
    ("qqq = 1", "", "FILE: key='qqq': unknown"),
    ("[method]\nname = 'adam'", "", "FILE: method={'name': 'adam'}: accepted is a name"),
    ("debug = true", "", "FILE: key='debug': unknown"),
    ("learning_rate = 'fast'", "", "FILE: learning_rate='fast': accepted is a number"),
    ("learning_rate = true", "", "FILE: learning_rate=True: accepted is a number"),
    ("learning_rate = nan", "", "FILE: learning_rate=nan: accepted is a number"),
    ("learning_rate = -1", "", "FILE: learning_rate=-1: accepted is a number > 0"),
    ("batch = 2.0", "", "FILE: batch=2.0: accepted is a whole number"),
    ("seeds = 'many'", "", f"FILE: seeds='many': {SEEDS}"),
    ("seeds = [0, 'x']", "", f"FILE: seeds=[0, 'x']: {SEEDS}"),
    ("hidden = 64", "", "FILE: hidden=64: accepted is whole numbers such as 64,64, or none"),
    ("json = 1", "", "FILE: json=1: accepted is true or false"),
    ("bias_correction = 'true'", "", "FILE: bias_correction='true': accepted is true or false"),
    (
        "env = 'CartPol-v1'",
        "",
        f"FILE: environment='CartPol-v1': accepted are {ENVIRONMENTS}; did you mean 'CartPole-v1'?",
    ),
    ("env = 'chain'\nenvironment = 'chain'", "", "FILE: key='environment': environment is given twice"),
    ("seeds = 1\n[options]\nseeds = 2", "", "FILE: key='seeds': given twice"),
    ("options = 3", "", "FILE: options=3: accepted is a table of the method's options"),
    (
        "b1 = 0.5",
        "",
        f"FILE: option='b1': pg-som does not take it; accepted with --method {takers_of('b1')}",
    ),
    (
        "method = 'adam'",
        "--beta1 0.5",
        f"option='beta1': adam does not take it; accepted with --method {takers_of('beta1')}",
    ),
    (
        "updates = 5\nepisodes = 20\nenv = 'three-state'",
        "",
        "FILE: updates=5: accepted is either updates or episodes, and episodes=20 is given",
    ),
    ("learning_rate = -1", "--learning-rate -2", "learning_rate=-2: accepted is a number > 0"),
    (
        "learning_rate 0.1",
        "",
        "config='FILE': not valid TOML: Expected '=' after a key in a key/value pair (at line 1, column 15)",
    ),
]


def error_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    """What is said on stderr; all else that must hold for wrong use is asserted."""
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.endswith("\n") and printed.err.count("\n") == 1
    return printed.err.removesuffix("\n")


@pytest.mark.parametrize(("words", "line"), COMMAND_LINES)
def test_a_wrong_command_line(words: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert error_line(capsys, words.split()) == line


@pytest.mark.parametrize(("text", "words", "line"), FILES)
def test_a_wrong_file(text: str, words: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.toml"
    file.write_text(text)
    said = error_line(capsys, ["train", "--config", str(file), *words.split()])
    assert said == f"pgsom train: {line.replace('FILE', str(file))}"


def test_a_file_that_is_not_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.toml"
    file.write_bytes(b"\xff\xfe")
    said = error_line(capsys, ["train", "--config", str(file)])
    assert said.startswith(f"pgsom train: config={str(file)!r}: not valid TOML: 'utf-8' codec can't decode")


def test_a_folder_as_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = error_line(capsys, ["train", "--config", str(tmp_path)])
    assert said == f"pgsom train: config={str(tmp_path)!r}: cannot be read (Is a directory); accepted is a TOML file"


def test_the_folder_for_the_run_is_below_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "run"
    said = error_line(capsys, ["train", "--out", str(out)])
    assert said == f"pgsom train: out={str(out)!r}: {tmp_path / 'file'} is a file; accepted is a folder"


def test_the_folder_for_the_run_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not by permissions: the tests may run as root, who is refused nothing.
    monkeypatch.setattr(settings.os, "access", lambda path, mode: False)
    out = tmp_path / "run"
    said = error_line(capsys, ["train", "--out", str(out)])
    expected = f"{tmp_path} cannot be written to; accepted is a writable folder"
    assert said == f"pgsom train: out={str(out)!r}: {expected}"
    assert not out.exists()


def test_a_finished_run_is_in_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "settings.toml").touch()
    said = error_line(capsys, ["train", "--out", str(tmp_path)])
    expected = "a run is there; accepted with --resume auto, with --overwrite, or another folder"
    assert said == f"pgsom train: out={str(tmp_path)!r}: {expected}"
