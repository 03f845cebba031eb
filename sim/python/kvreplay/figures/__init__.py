# SPDX-License-Identifier: Apache-2.0
"""Figures about traces, as in papers: `kvreplay attention`, `residuals` and
`selection`. They follow from q, k and v alone, without a replay. The numbers go
into the table `figure` of a database, the figures into SVG files beside it."""
