-- SPDX-License-Identifier: Apache-2.0
--
-- Prompts that were read in chunks (prefill=N), as a view.

-- For each cell whose prompt was read in chunks: what its prompt rows lost,
-- what decoding loses after them, and what decoding loses after the same prompt
-- read whole (whole_..) by the same method with the same parameters and budget;
-- null if that did not run.
CREATE TEMP VIEW prompts AS
WITH ran AS MATERIALIZED
  (SELECT *, CAST(json_extract(params, '$.prefill') AS INTEGER) AS chunk,
    json_remove(params, '$.prefill') AS others
  FROM cell WHERE output_error IS NOT NULL)
SELECT c.trace, c.prompt_len, c.observe, c.method, c.params, c.spec, c.basis,
  c.asked, c.budget, c.chunk, c.kr, c.prompt_error, c.prompt_mass,
  c.prompt_attended, c.mass, w.mass AS whole_mass, c.needle_share,
  w.needle_share AS whole_needle_share, c.lse_error,
  w.lse_error AS whole_lse_error, c.output_error,
  w.output_error AS whole_output_error,
  min(c.confirmed, coalesce(w.confirmed, 1)) AS confirmed,
  c.conflicts, c.status, c.key
FROM ran c LEFT JOIN ran w ON w.chunk IS NULL AND w.trace = c.trace
  AND w.prompt_len = c.prompt_len AND w.observe = c.observe
  AND w.arithmetic = c.arithmetic AND w.method = c.method
  AND w.others = c.others AND w.basis = c.basis AND w.asked = c.asked
WHERE c.chunk IS NOT NULL
ORDER BY c.trace, c.prompt_len, c.observe, c.method, c.budget, c.others,
  c.basis, c.asked, c.chunk, c.key;
