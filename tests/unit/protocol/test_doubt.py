"""What is believed of what lay in the sockets of a task that was stopped."""

from millrace.protocol.doubt import Doubt


def test_nothing_is_kept_back_while_nothing_is_doubted():
    doubt = Doubt()
    assert not doubt.doubted and not doubt.keeps("a", "hello", 1, False)


def test_what_came_is_believed_in_order_once_the_question_is_answered():
    doubt = Doubt()
    number = doubt.begin(["a", "b"])
    assert doubt.doubted
    for word in ("one", "two"):
        assert doubt.keeps("a", word, 1, False)
    assert doubt.answered("b", number) == []
    assert doubt.answered("a", number) == ["one", "two"]
    assert not doubt.doubted and not doubt.keeps("a", "three", 1, False)


def test_an_answer_to_an_older_question_counts_for_nothing():
    doubt = Doubt()
    old = doubt.begin(["a"])
    doubt.keeps("a", "one", 1, False)
    new = doubt.begin(["a"])
    assert doubt.answered("a", old) == []
    assert doubt.answered("a", new) == ["one"]


def test_what_a_closed_channel_brought_is_dropped():
    doubt = Doubt()
    number = doubt.begin(["a"])
    doubt.keeps("a", "one", 1, False)
    doubt.closed("a")
    assert doubt.answered("a", number) == [] and not doubt.doubted


def test_what_was_cancelled_afterwards_is_not_done_first():
    doubt = Doubt()
    number = doubt.begin(["a"])
    doubt.keeps("a", "gradient of 1", 1, False)
    doubt.keeps("a", "gradient of 2", 2, False)
    doubt.keeps("a", "cancel 1", 1, True)
    assert doubt.answered("a", number) == ["gradient of 2", "cancel 1"]
