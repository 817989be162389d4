"""Tables made of utterances: masked texts, template pairs, code-switched sentences and aligned pairs."""
