"""The program that executes models on a board in runtimes that are Python packages.

It needs Python 3.8 and NumPy. The host sends it as one archive, which the board's Python executes
(harness/runtimes/python_program.py). It prints one JSON document.
"""
