"""Find utterances that are unlike every other one of their language, by exact all-pairs BLEU (stage `negatives`)."""
