"""`python -m stoker.engine.process`: the engine process of the product; `supervisor` starts it."""

from __future__ import annotations

import logging
import sys

from stoker.core.config import EngineConfig
from stoker.engine.build import build_engine
from stoker.engine.core import EngineCore
from stoker.engine.loop import Report, run_engine
from stoker.engine.pinning import pin_caller
from stoker.engine.wire import EngineInfo


def main() -> int:
    logging.basicConfig(format="%(asctime)s engine %(levelname)s %(message)s", level=logging.INFO)
    return run_engine(_build)


def _build(config: EngineConfig, report: Report) -> tuple[EngineCore, EngineInfo]:
    built = build_engine(config, report)
    pin_caller(built.cpus)
    return built.core, built.info


if __name__ == "__main__":
    sys.exit(main())
