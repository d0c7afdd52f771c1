"""Find the campaign that a user names, and the argument CAMPAIGN of all commands.

May import: `core`, `stores.config`, the other modules of this package.
"""

import glob
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from storelab.cli import Settings
from storelab.core.errors import NO_PROJECT, UserError, cut, nearest, shown

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

ENDINGS = (".yaml", ".yml")
MAX_NAMES = 12  # maximum number of names in a message
PAPERS = "papers"  # folder in results/ that is not a campaign
OLDER = "given_dir"  # key in the context of click: the value of --campaign-dir
LEFT = "first_name"  # key in the context of click: a first word that is not a campaign


@dataclass(frozen=True)
class Found:
    """A campaign that a user named.

    Attributes
    ----------
    folder
        The folder of its results; it may not exist.
    root
        The folder of config.yaml.
    given
        The campaign file that the user named; None if the user named a folder.
    """

    folder: Path
    root: Path
    given: str | None = None

    @cached_property
    def overrides(self) -> dict[str, Any] | None:
        """Values of the configuration that choose this campaign; None if it has no campaign file."""
        if self.given is not None:
            return {"campaign": self.given}
        file = _file_with_name(self.root, self.folder.resolve().name)
        return None if file is None else {"campaign": file, "results": str(self.folder.parent)}

    def required_overrides(self) -> dict[str, Any]:
        """Return the overrides. Raises UserError if the campaign has no file."""
        if self.overrides is None:
            name = self.folder.resolve().name
            hint = f"put its file there; if it was measured with name={name}, give its campaign file, and this setting"
            raise UserError(f"campaign {name}", "has no file in campaigns/", hint)
        return self.overrides


def find(settings: Settings, text: str) -> Found:
    """Return the campaign with this name, file or folder.

    A text that ends in .yaml is a campaign file. A text with a slash is a folder of results. Other texts are names: of
    a file in campaigns/, else of a folder in results/, else of a folder here. Raises UserError, with similar names, if
    there is no such campaign, or if a file and a folder with this name are two campaigns.
    """
    if text.endswith(ENDINGS):
        return _of_file(settings, _file(settings, text))
    if "/" in text or text in (".", ".."):
        return _of_folder(settings, text)
    root = settings.main.parent
    if text not in _files(root):
        for folder in (settings.results() / text, Path(text)):
            if text and text != PAPERS and _has_results(folder):
                return Found(folder, root)
        raise _unknown(settings, text, f"there is no campaign {shown(text)}")
    found = _of_file(settings, text)
    other = found.folder.with_name(text)
    if found.folder != other and not settings.sets("name") and (other / "raw").is_dir():
        raise UserError(
            f"campaign {text}",
            f"is a file with results in {found.folder}, and another campaign with results in {other}",
            f"give campaigns/{text}.yaml or {other}",
        )
    return found


def exists(settings: Settings, text: str) -> bool:
    """Return whether this is the name, the file or the folder of a campaign."""
    try:
        folder = find(settings, text).folder
    except UserError:
        return False
    return text in _files(settings.main.parent) or text.endswith(ENDINGS) or (folder / "raw").is_dir()


def _files(root: Path) -> list[str]:
    from storelab.core import config

    return config.names_of_campaigns(root)


def _of_file(settings: Settings, campaign: str) -> Found:
    chosen = settings.choosing({"campaign": campaign})
    return Found(chosen.configured_folder(), settings.main.parent, campaign)


def _file(settings: Settings, text: str) -> str:
    """Return the value of the key `campaign` for a file: its path, or its name if the file is in campaigns/."""
    root = settings.main.parent
    if (root / text).is_file():
        return text
    name = Path(text).stem
    if Path(text).is_file():
        return str(Path(text).resolve())
    if "/" not in text and name in _files(root):
        return name
    raise _unknown(settings, name, f"there is no campaign file {shown(text)}")


def _of_folder(settings: Settings, text: str) -> Found:
    folder = Path(text)
    if folder.name in ("", ".."):
        folder = folder.resolve()
    if folder.is_file():
        raise UserError(cut(text), "is not a campaign", "give the name of a campaign, or the folder of its results")
    if not (folder / "raw").is_dir() and (folder.parent / "raw").is_dir():
        raise UserError(cut(text), "is a part of a campaign", f"give {folder.parent}")
    if folder.parent.name == "results" and folder.name in _files(settings.main.parent) and not folder.exists():
        hint = f"run `storelab run {folder.name}`, or name a measured campaign"
        raise UserError("campaign", f"{folder.name} has no records in {cut(text)}", hint)
    if not _has_results(folder):
        raise _unknown(settings, folder.name, f"there is no folder {shown(text)}")
    return Found(folder, settings.main.parent)


def _has_results(folder: Path) -> bool:
    """Return whether the folder exists, or dated entries of its history (docs/history.md)."""
    return folder.is_dir() or any(folder.parent.glob(f"{glob.escape(folder.name)}@*"))


def _file_with_name(root: Path, name: str) -> str | None:
    """Return the campaign file whose campaign has this name; None if there is none."""
    from storelab.core import config

    names = _files(root)
    for stem in sorted(names, key=lambda stem: stem != name):  # usually the file has the same name, so try it first
        try:
            if config.read_yaml(root / "campaigns" / f"{stem}.yaml").get("name") == name:
                return stem
        except UserError:  # the file of another campaign has an error
            continue
    return None


def _unknown(settings: Settings, name: str, problem: str) -> UserError:
    """Return the error for a campaign that does not exist."""
    try:
        results = settings.results()
    except UserError:  # the configured campaign is wrong, but this is another one
        results = Path("results")
    folders = results.iterdir() if results.is_dir() else ()
    measured = [p.name for p in folders if (p / "raw").is_dir()]
    names = sorted({*_files(settings.main.parent), *measured})
    if not names and not settings.main.exists():
        return UserError("campaign", f"{problem}, because there is no {settings.main} here", NO_PROJECT)
    if name in names:
        return UserError("campaign", problem, f"give the name only: {name}")
    near = nearest(name, names, "one of")
    if len(names) > MAX_NAMES and not near.startswith("did you mean"):
        near = f"one of the {len(names)} in campaigns/ and {results}/"
    return UserError("campaign", problem, near if names else "name a campaign in campaigns/ or results/")


def configured(settings: Settings, text: str | None) -> Settings:
    """Return the settings with this campaign; without a text, those of the configured campaign."""
    if text is None:
        return settings
    _refuse_second(settings, text)
    return settings.choosing(find(settings, text).required_overrides())


def _refuse_second(settings: Settings, text: str) -> None:
    """Raise UserError if `--set campaign=` names another campaign."""
    other = settings.set_campaign()
    if other is not None and other != text:
        raise UserError("campaign", f"{text!r} is given, and {other!r} with --set campaign", "leave one of them out")


def folder_of(settings: Settings, text: str | None) -> Path:
    """Return the folder of the results of this campaign; without a text, of the configured campaign."""
    if text is None:
        if not settings.main.exists():
            hint = "name a campaign, or the folder of its results"
            raise UserError("campaign", f"none is given, and there is no {settings.main} here", hint)
        return settings.configured_folder()
    if "/" not in text:
        _refuse_second(settings, text)
    return find(settings, text).folder


# --- arguments of commands ---


def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Return the names of campaigns that begin with this text; for a path, let the shell complete it."""
    from click.shell_completion import CompletionItem

    if "/" in incomplete:
        return [CompletionItem(incomplete, type="dir")]
    measured = (p.parent.name for p in Path("results").glob("*/raw"))
    return [CompletionItem(name) for name in beginning(incomplete, {*_files(Path()), *measured})]


def complete_store(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of the configured stores that begin with this text."""
    try:
        return beginning(incomplete, _settings(ctx.find_root()).load().stores)
    except UserError:  # in the configuration: the command reports it
        return []


def beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    """Return the names that begin with this text, sorted."""
    return sorted(name for name in names if name.startswith(incomplete))


def _settings(ctx: click.Context) -> Settings:
    if ctx.obj is None:
        ctx.obj = Settings()
    return ctx.obj


def _choose(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if not ctx.resilient_parsing:
        ctx.obj = configured(_settings(ctx), value)


def _remember(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    ctx.meta[OLDER] = value


def _folder(ctx: click.Context, _: click.Parameter, value: str | None) -> Path | None:
    if ctx.resilient_parsing:
        return None
    older, settings = ctx.meta.get(OLDER), _settings(ctx)
    if value is None or (older and _takes_names(ctx)):
        ctx.meta[LEFT] = value
        return Path(older) if older else folder_of(settings, None)
    if older:
        raise UserError("campaign", f"{value!r} is given, and {older!r} with --campaign-dir", "leave one of them out")
    if _takes_names(ctx) and "/" not in value and settings.set_campaign() not in (None, value):
        ctx.meta[LEFT] = value
        return settings.configured_folder()
    return folder_of(settings, value)


def _takes_names(ctx: click.Context) -> bool:
    return any(p.name == "names" for p in ctx.command.params)


def _names(ctx: click.Context, _: click.Parameter, value: Sequence[str]) -> tuple[str, ...]:
    first = ctx.meta.get(LEFT)
    return (*([first] if first else []), *value)


Command = Callable[..., Any]


def argument(name: str, **options: Any) -> Callable[[Command], Command]:
    """Return a decorator that adds the optional argument CAMPAIGN."""
    return click.argument(name, metavar="[CAMPAIGN]", required=False, shell_complete=complete, **options)


def config_argument(command: Command) -> Command:
    """Add the argument CAMPAIGN; the settings that the command gets are those of this campaign."""
    return argument("campaign", expose_value=False, callback=_choose)(command)


def folder_argument(command: Command) -> Command:
    """Add the argument CAMPAIGN and the older option --campaign-dir. The command gets the Path `campaign_dir`."""
    older = click.option(
        "--campaign-dir",
        OLDER,
        hidden=True,
        is_eager=True,
        expose_value=False,
        callback=_remember,
        help="The older way to give the folder of the campaign.",
    )
    return argument("campaign_dir", callback=_folder)(older(command))


def names_argument(command: Command) -> Command:
    """Add the arguments NAME after CAMPAIGN; the command gets the tuple `names`."""
    return click.argument("names", nargs=-1, metavar="[NAME]...", callback=_names)(command)
