# SPDX-License-Identifier: Apache-2.0
"""What ZSMerge's paper claims (arXiv 2503.10714)."""

from __future__ import annotations

from .claim import Claim, Look

P = "ZSMerge"
LLAMA = "kvreplay capacity -M llama-2-7b -g a100-80g"
TABLE_1 = tuple(f"{LLAMA} -c {c} -o {c} --users {n} -m dense"
                for c, n in ((4096, 4), (4096, 8), (2048, 16)))  # fmt: skip
FIGURE_3 = (f"{LLAMA} -c 19999 -o 1 --cache F32 --weights fp32 -m dense",
            f"{LLAMA} -c 53999 -o 1 --cache F32 --weights fp32 "
            "-m dense,window -b 18000")  # fmt: skip
SPEED = """WITH p(context, users, full, theirs) AS (VALUES
    (4096, 4, 62.4, 77.0), (4096, 8, 65.5, 146.7), (2048, 16, 133.1, 281.9))
  SELECT group_concat(printf('%.2f', theirs / full), ', ') AS times,
    min(full / tokens_per_s) AS least, max(full / tokens_per_s) AS most
  FROM p JOIN capacity c ON c.context = p.context AND c.decoding = p.users
  WHERE c.model = 'llama-2-7b' AND c.output = c.context
  GROUP BY c.model HAVING count(*) = 3"""
GIB = """SELECT
  max((bytes + weights) / 1073741824.0) FILTER (WHERE context = 19999
    AND method = 'dense') AS at_20k,
  max((bytes + weights) / 1073741824.0) FILTER (WHERE context = 53999
    AND method = 'dense') AS at_54k,
  max((bytes + weights) / 1073741824.0) FILTER (WHERE method = 'window')
    AS bounded,
  max((bytes + weights) / 2147483648.0) FILTER (WHERE method = 'window')
    AS half,
  max(users) FILTER (WHERE context = 53999 AND method = 'dense') AS users
  FROM capacity WHERE model = 'llama-2-7b' AND output = 1
  GROUP BY model HAVING bounded IS NOT NULL"""
# Bytes from the first decode step to the last, of each run the most over the
# least; of how many steps the shortest run is.
CONSTANT = """WITH s AS (SELECT of, c.method, c.trace,
    max(k.bytes) * 1.0 / min(k.bytes) AS grows, count(*) AS steps
    FROM cell c JOIN r.run n USING (key) JOIN r.step_cost k USING (run_id)
    WHERE c.output_error IS NOT NULL AND k.step > c.prompt_len
      AND (c.method = 'dense' AND c.prompt_len = (SELECT prompt_len FROM source
        WHERE source.trace = c.trace) OR c.method = 'zsmerge'
        AND c.asked = '90%') GROUP BY c.key)
  SELECT of, min(steps) AS steps,
    max(grows) FILTER (WHERE method = 'zsmerge') AS grows,
    max(grows) FILTER (WHERE method = 'dense') AS dense
  FROM s GROUP BY of HAVING grows IS NOT NULL"""
# A row a task, with a number a budget: answers of two tasks have other lengths.
ANSWERS = """SELECT model || ', ' || task AS of, how,
    group_concat(printf('%+.2f at %s', z.x - h.x, asked), ', ') AS gains
  FROM likely z JOIN likely h USING (model, task, asked, how)
  WHERE z.method = 'zsmerge' AND h.method = 'h2o' AND z.x - h.x IS NOT NULL
    AND z.measurable = 1 GROUP BY model, task, how"""

CLAIMS = (
    Claim("12", P, "Table 1", "1.23, 2.24 and 2.1 times as many tokens/s as "
          "the full cache.", (
        Look("arithmetic", SPEED, "its table has {times} times; its full cache "
             "ran at {least:.0%} to {most:.0%} of the roofline", "1", "1",
             TABLE_1, beside=True),),
        why="tokens/s of an eager forward on an A800, where launches and not "
            "bytes take the time"),
    Claim("13", P, "Figure 3", "A budget of 18k tokens holds a constant 43 "
          "GB.", (
        Look("arithmetic", GIB, "{bounded:.1f} GiB with weights, all in 32 "
             "bits, as its 25 GB of weights are; in 16 bits {half:.1f} GiB",
             "abs(bounded - 43) < 0.5",
             "bounded < at_54k", FIGURE_3),
        Look("replay", CONSTANT, "over at least {steps} decode steps the bytes "
             "of zsmerge grow {grows:.3f} fold, of dense {dense:.2f} fold",
             "grows < 1.01", "grows < dense",
             ("kvreplay run {traces} -m dense",
              "kvreplay run {traces} -m zsmerge -b 90%")))),
    Claim("13b", P, "Figure 3", "The full cache reaches 79 GB at 54k tokens.", (
        Look("arithmetic", GIB, "{at_54k:.1f} GiB with weights, all in 32 "
             "bits; {at_20k:.1f} at 20k tokens; an 80 GB device then has room "
             "for {users} of them", "abs(at_54k - 79) < 1.5 AND users = 0",
             "at_54k > at_20k", FIGURE_3),)),
    Claim("13c", P, "Figure 3", "At 54k tokens it decodes 9 tokens/s, the full "
          "cache 4.", unasked="nothing here runs an engine"),
    Claim("14", P, "Section 4", "What is 300 steps old weighs about 0.002.", (
        Look("arithmetic", "SELECT power(.98, 300) AS x", "0.98 to the 300th "
             "is {x:.5f}", "round(x, 3) = 0.002"),)),
    Claim("15", P, "Table 2", "At equal budgets answers are better than H2O's "
          "(ROUGE of summaries).", (
        Look("answers", ANSWERS, "log-likelihood of the right answer, {how} "
             "its tokens, under zsmerge less that under h2o, nats: {gains}",
             "0", beside=True),),
        why="ROUGE of summaries by models of 7 to 13 billion parameters; here "
            "only the likelihood of short answers of small ones"),
)
