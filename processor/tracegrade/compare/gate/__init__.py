"""Baselines of gates: saved results, and how what is stored or just judged stands against them.

What a gate requires and decides is in `tracegrade.pipeline.gate`.
"""
