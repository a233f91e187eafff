"""Small statistics over the text of a ledger's notes."""

import re

WORD = re.compile(r"[a-z']+")


def words_of(text):
    """Split a text into its words, in lower case."""
    return WORD.findall(text.lower())


def longest(words):
    """Return the longest word; of several, the first."""
    return max(words, key=len, default="")


def word_counts(text):
    """Count how often each word stands in the text."""
    
    for word in words_of(text):
        counts[word] = counts.get(word, 0) + 1
    return counts
