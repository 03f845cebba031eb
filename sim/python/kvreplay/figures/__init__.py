# SPDX-License-Identifier: Apache-2.0
"""Figures about traces, after papers: `kvreplay attention`, `residuals` and
`selection`. Nothing is replayed: all of it follows from q, k and v. Numbers go
into table `figure` of a database, a number a row, and figures of the traces
that were named into SVG files beside it."""
