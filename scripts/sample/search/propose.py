#!/usr/bin/env python3
"""A proposer for `muster optimize --proposer command`: widens the tile until it stops paying."""
import json
import pathlib
import sys

template = (pathlib.Path(__file__).parent / "tiles.cu").read_text()
tiles = [(2, 4), (4, 8), (4, 16), (8, 8)]
for line in sys.stdin:
    request = json.loads(line)
    if request["iteration"] > len(tiles):
        print(json.dumps({"stop": "every tile was tried"}), flush=True)
        continue
    rows, columns = tiles[request["iteration"] - 1]
    source = template.replace("${rows}", str(rows)).replace("${columns}", str(columns)).replace("${unroll}", "1")
    grid = [f"ceil_div(n, {8 * columns})", f"ceil_div(m, {4 * rows})"]
    answer = {"source": source, "name": f"tile {rows}x{columns}", "words": f"best so far {request['best']['ratio']['ratio']}×",
              "launch": {"grid": grid, "block": [8, 4]}, "licence": "Apache-2.0 OR MIT"}
    print(json.dumps(answer), flush=True)
