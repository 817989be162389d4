"""Make masked texts, template pairs, code-switched sentences and aligned pairs from utterances."""
