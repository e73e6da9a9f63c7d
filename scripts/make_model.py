"""Makes, fetches or finds the checkpoint of a spec and writes its record, checkpoint.json."""

import argparse
import json
import os
import sys
from pathlib import Path


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--spec", required=True, help="a spec or its `model` part: a JSON document, or a file of it"
    )
    parser.add_argument("--output", required=True, type=Path, help="the record to write")
    args = parser.parse_args(argv)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

    from fourcells.model import make_checkpoint
    from fourcells.spec import read_spec

    spec = read_spec(args.spec)
    try:
        checkpoint = make_checkpoint(spec.get("model", spec), args.output)
    except (OSError, ValueError) as error:
        print(f"make_model: {error}", file=sys.stderr)
        return 1
    print(json.dumps({"folder": checkpoint.folder, "parameters": checkpoint.parameters}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
