# SPDX-License-Identifier: Apache-2.0
#
# Part of ../Makefile.am: every script in Python, and what those read.
in_python = conformance/cases.csv conformance/check.py conformance/checkout.py \
	conformance/kivi.py conformance/methods.csv conformance/once.py \
	conformance/presses.py conformance/run.py conformance/steps.py \
	conformance/vectors.py figures/compressors.txt figures/deltakv.txt \
	figures/formats.txt figures/pictures.txt figures/tokens.txt \
	vectors/authors_smollm2.txt \
	vectors/authors_tiny.txt python/answers.py python/answers_rows.py \
	python/check_capacity.py \
	python/check_claims.py python/check_docs.py python/check_dump.py \
	python/check_evaluate.py python/check_figures.py python/check_pack.py \
	python/check_page.py python/check_prefill.py python/check_paired.py \
	python/check_prepared.py \
	python/check_python.py \
	python/check_python_grades.py python/check_python_layouts.py \
	python/check_python_runs.py python/check_python_scores.py \
	python/check_ranks.py python/check_samples.py python/chunked.py \
	python/check_summary.py \
	python/check_trace_figures.py python/check_ranks.csv \
	python/pool_queue.csv sim/check_train.py support/program/weights.py \
	python/evaluate_hf.py python/evaluate_press.py \
	python/hf_models.py python/package_imports.py python/plan_hf.py \
	python/press_hf.py python/press_model.py python/presses_hf.py \
	python/presses_rows.py python/record_hf.py python/record_repeat.py \
	python/record_second.py python/refusals.py python/record_text.py \
	python/session_feed.py python/session_hf.py python/shared.py \
	python/session_store.py python/pool_queue.py python/tasks_text.py \
	python/trace_hf.py python/train_hf.py python/two_runtimes.py \
	python/types_hf.py python/types_small.py python/variants.py \
	python/windowed.py
