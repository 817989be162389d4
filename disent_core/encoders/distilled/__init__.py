"""A multilingual encoder made of a teacher of one language and translations of it.

`vocabulary` and `alignment` give the teacher's blocks a vocabulary of all languages, without training: the aligned
encoder, which `aligned` writes. `student` trains that encoder to place a translation where the teacher has its source.
"""

ALIGNED_VERSION = "1"
"""Changes with every change of this folder's code that changes aligned encoders."""
STUDENT_VERSION = "1"
"""Changes with every change of this folder's code that changes students, beyond a change of aligned encoders."""
