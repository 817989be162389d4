"""The parts of TWOSL, one module each; `labeller` has the tagger."""
