"""nbgrader's configuration, read from where nbgrader's own commands read it when they are run in the clone's root."""

from __future__ import annotations

from jupyter_core.application import JupyterApp
from nbgrader.apps.baseapp import NbGrader
from traitlets.config import Config

from autograder.paths import CLONE


class ConfigError(OSError):
    """A configuration file can't be read; the text says which, and why."""


def clone_config() -> Config:
    """The files on Jupyter's path, then the clone's, which wins. Raises OSError."""
    app = NbGrader(raise_config_file_errors=True)
    try:
        JupyterApp.load_config_file(app, suppress_errors=False)  # NbGrader's own would look where this command is run
        super(JupyterApp, app).load_config_file(app.config_file_name, path=str(CLONE))
    except OSError:
        raise  # of the class's folder: the text says it
    except Exception as error:  # a configuration file is code
        known = f", or in {CLONE}" if str(CLONE) not in app.config_file_paths else ""
        raise ConfigError(
            f"nbgrader's configuration can't be read ({type(error).__name__}: {error}): correct the "
            f"{app.config_file_name}.py in {', '.join(app.config_file_paths)}{known}"
        ) from None
    config: Config = app.config
    return config
