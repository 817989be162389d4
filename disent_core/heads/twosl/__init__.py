"""Slot labelling: TWOSL, which classifies spans in two stages, and token classification beside it.

Razumovskaia, Vulić, Korhonen: *Transfer-Free Data-Efficient Multilingual Slot Labeling*, EMNLP 2023.
"""
