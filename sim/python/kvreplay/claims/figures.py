# SPDX-License-Identifier: Apache-2.0
"""What figures of older papers show of attention itself, which the others build
on: StreamingLLM's sinks (arXiv 2309.17453) and PyramidKV's funnel (2406.02069).
"""

from __future__ import annotations

from .claim import Claim, Look

HEADS = ("kvtrace info --attention {trace}",)
# A layer has a sink where token 0 has .3 of the mass, mean of its heads. Layers
# are those that are recorded, by depth.
SINKS = """WITH l AS (SELECT of, layer, avg(first) AS first FROM heads
    WHERE head IS NULL GROUP BY of, layer),
  n AS (SELECT *, row_number() OVER (PARTITION BY of ORDER BY layer) AS place
    FROM l)
  SELECT of, count(*) AS layers, sum(first >= 0.3) AS sinks,
    sum(first >= 0.3 AND place > 2) AS above FROM n GROUP BY of"""
FUNNEL = """WITH l AS (SELECT of, layer,
    sum(value) FILTER (WHERE figure = 'attention.critical') * 1.0 /
      sum(value) FILTER (WHERE figure = 'attention.seen') AS x
    FROM found WHERE figure LIKE 'attention.%' GROUP BY of, layer),
  t AS (SELECT *, ntile(3) OVER (PARTITION BY of ORDER BY layer) AS third
    FROM l)
  SELECT of, avg(x) FILTER (WHERE third = 1) AS low,
    avg(x) FILTER (WHERE third = 2) AS middle,
    avg(x) FILTER (WHERE third = 3) AS high
  FROM t GROUP BY of HAVING count(*) >= 3"""

CLAIMS = (
    Claim("F1", "StreamingLLM", "Figure 2", "All layers but the lowest two "
          "have a sink in token 0.", (
        Look("replay", SINKS, "{sinks} of {layers} recorded layers",
             "above = layers - 2", "2 * sinks > layers", HEADS),)),
    Claim("F2", "PyramidKV", "Figure 2", "Attention is spread in low layers "
          "and narrow in high ones.", (
        Look("replay", FUNNEL, "95 % of the mass needs {low:.0%} of what a row "
             "sees in the lowest third of layers, {middle:.0%} in the middle, "
             "{high:.0%} in the highest", "low > middle AND middle > high AND "
             "low > 2 * high", "low > high",
             ("kvreplay attention {traces}",)),)),
)
