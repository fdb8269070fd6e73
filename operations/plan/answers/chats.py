"""Checks of OpenAI's chats without tools: form, stop words, probabilities, schemas, thoughts, sense."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from operations.plan.answers import questions, recited, texts
from operations.plan.answers.fits import fitting
from operations.plan.answers.reading import TAGS, Said, Undecided, Wrong, need, quoted
from operations.plan.answers.shapes import Check, Seen

#: Tokens of the long text's characters: fewer would be half of it.
_CHARACTERS_A_TOKEN = 12


def _answer(seen: Seen) -> None:
    said = seen.chat("english")
    need(said.text, "the answer is empty")
    need(said.content or said.is_cut, "all of it stands in its thoughts: the reasoning parser is not the model's")
    need(said.finish in ("stop", "length"), f"it says `{said.finish}` as why it ended, expected stop or length")
    need(said.prompt_tokens and said.answer_tokens, "it does not say what it cost (`usage`)")


def _stream(seen: Seen) -> None:
    said = seen.chat("english-stream")
    need(said.text, "nothing came in the stream")
    need(said.prompt_tokens and said.answer_tokens, "the stream does not say what it cost (`include_usage`)")


def _limit(seen: Seen) -> None:
    said = seen.chat("one-token")
    need(said.answer_tokens <= 1, f"{said.answer_tokens} tokens came, and one was the most (`max_tokens`)")
    need(said.is_cut or said.answer_tokens == 0, f"one token was the most, and it ended with `{said.finish}`")


def _stopped(name: str) -> Callable[[Seen], None]:
    def judge(seen: Seen) -> None:
        word, said = texts.stop_word(seen.chat("count").text), seen.chat(name)
        need(word not in said.text, f"the answer goes on behind the word at which it should stop ({quoted(word)})")
        if said.is_cut:
            raise Undecided("asked again the answer went another way, and never came to the word")
        need(said.finish == "stop", f"it stopped, and says `{said.finish}` as why")

    return judge


def _logprobs(seen: Seen) -> None:
    said = seen.chat("logprobs")
    need(said.logprobs, "it has no `logprobs`")
    for each in said.logprobs:
        best = each.get("top_logprobs") or []
        need(isinstance(each.get("token"), str) and each.get("logprob", 1) <= 0, f"an entry is none: {each}")
        need(1 <= len(best) <= 4, f"a token has {len(best)} alternatives, 3 were asked for")


def grows(more: str, less: str, what: str) -> Callable[[Seen], None]:
    """The template shows the model something: with it the prompt has more tokens."""

    def judge(seen: Seen) -> None:
        with_it, without = seen.chat(more).prompt_tokens, seen.chat(less).prompt_tokens
        if not with_it or not without:
            raise Undecided("it does not say how many tokens a prompt has")
        need(with_it > without, f"the prompt has {with_it} tokens with {what} and {without} without: it is left out")

    return judge


def _needle_whole(seen: Seen) -> None:
    tokens, least = seen.chat("needle").prompt_tokens, questions.long(seen) // _CHARACTERS_A_TOKEN
    need(tokens >= least, f"the engine has read {tokens} tokens of a text that has more than {least}")


def _schema(name: str) -> Callable[[Seen], None]:
    def judge(seen: Seen) -> None:
        fitting(texts.PERSON, seen.chat(name))

    return judge


def _schema_right(seen: Seen) -> None:
    value = fitting(texts.PERSON, seen.chat("schema"))
    need(value == texts.PERSON_IS, f"it took something else from `{texts.SENTENCE}`: {value}")


def _all_said(seen: Seen) -> Iterator[tuple[str, Said]]:
    """Every answer that could be read and came to its end, but those that were recited. Where calls are forbidden a
    model may write one: the engine takes it for text, as it was told. In one that was cut a parser may not know yet
    what a tag belongs to.
    """
    own = {"tool-none", *(each.name for each in recited.QUESTIONS)}
    for each in questions.QUESTIONS:
        if each.name in own or each.path not in (questions.CHAT, questions.MESSAGES):
            continue
        try:
            said = seen.chat(each.name) if each.path == questions.CHAT else seen.message(each.name)
        except (Wrong, Undecided):
            # Its own check says so.
            continue
        if not said.is_cut:
            yield each.name, said


def _no_tags(seen: Seen) -> None:
    answers = list(_all_said(seen))
    if not answers:
        raise Undecided("no answer came to its end")
    for name, said in answers:
        found = TAGS.search(said.content)
        need(not found, f"`{found and found[0]}` stands in an answer ({name}): {quoted(said.content)}")


def _apart(name: str) -> Callable[[Seen], None]:
    def judge(seen: Seen) -> None:
        said = seen.chat(name)
        need(said.thought, f"the answer has no thoughts of its own ({quoted(said.content)})")
        if not said.content and said.is_cut:
            raise Undecided("its thoughts took all the room")
        need(said.content, "behind its thoughts there is no answer")

    return judge


def _recited_thought(seen: Seen) -> None:
    text = recited.thought(seen)
    said = seen.chat("recited-thought")
    found = TAGS.search(said.content)
    need(not found, f"a thought as the template writes it ({quoted(text)}) stands in the answer itself")


def has(name: str, word: str, ask: str) -> Callable[[Seen], None]:
    """An answer has a word in it, however it is written."""

    def judge(seen: Seen) -> None:
        said = seen.chat(name)
        if word.casefold() not in said.content.casefold() and said.is_cut:
            raise Undecided("the answer had no room to end")
        need(word.casefold() in said.content.casefold(), f"{ask}: expected {word}, it says {quoted(said.content)}")

    return judge


def _same(one: str, other: str, how: str) -> Callable[[Seen], None]:
    def judge(seen: Seen) -> None:
        first, second = seen.chat(one), seen.chat(other)
        if first.is_cut or second.is_cut:
            raise Undecided("the answer had no room to end")
        # Thoughts are long: on a sound engine they take another way more often than not.
        need(first.content == second.content, f"{how}: {quoted(first.content)}, then {quoted(second.content)}")

    return judge


def _capital(name: str, says: str) -> Check:
    return Check(name, "sense", says, has(name, texts.CAPITALS_ARE[name], texts.CAPITALS[name]))


CHECKS: tuple[Check, ...] = (
    Check("answer", "form", "An answer has text, why it ended, and what it cost", _answer),
    Check("stream", "form", "A stream has the same, and ends with `[DONE]`", _stream),
    Check("limit", "form", "`max_tokens` is kept", _limit),
    Check("stop", "form", "An answer ends before a stop word", _stopped("stop")),
    Check("stop-stream", "form", "So does a stream", _stopped("stop-stream")),
    Check("logprobs", "form", "Each token has its probability, and alternatives", _logprobs, ("logprobs",)),
    Check(
        "system",
        "form",
        "The template shows the system's message",
        grows("ruled", "ruled-short", "a longer system's message"),
    ),
    Check("turns", "form", "The template shows earlier turns", grows("turns", "last-turn", "earlier turns")),
    Check("long", "form", "A long text is read as a whole", _needle_whole),
    Check("tags", "form", "No answer has a tag of the template, of thoughts or of calls in it", _no_tags),
    Check("schema", "form", "An answer by a schema fits it", _schema("schema"), ("schema",)),
    Check("schema-stream", "form", "So does a stream", _schema("schema-stream"), ("schema",)),
    Check(*("thoughts", "form", "Thoughts come apart from the answer"), _apart("english"), ("reasoning", "thinks")),
    Check(
        "thoughts-stream",
        "form",
        "So they do in a stream",
        _apart("english-stream"),
        ("reasoning", "thinks"),
    ),
    Check(
        "thoughts-recited", "form", "A thought as the template writes it is taken out", _recited_thought, ("recited",)
    ),
    _capital("english", "It knows the capital of France"),
    _capital("german", "It understands German"),
    _capital("chinese", "It understands Chinese, in a stream"),
    Check("rule", "sense", "It does as the system's message says", has("ruled", "PLUM", texts.RULE)),
    Check("memory", "sense", "It knows what was said two turns before", has("turns", texts.NAME, "the user's name")),
    Check("needle", "sense", "It finds a fact in the midst of a long text", has("needle", texts.CODE, "the code")),
    Check("schema-right", "sense", "What it takes from a sentence is right", _schema_right, ("schema",)),
    Check(
        *("repeats", "sense", "At temperature 0 it says the same again"),
        _same("english", "english-again", "asked twice"),
    ),
    Check(
        *("streams-same", "sense", "A stream at temperature 0 has the same words"),
        _same("english", "english-stream", "as a whole and as a stream"),
    ),
)
