"""A judge for texts that tests compare: it knows how long they are."""

from edit_harness import Judge, Verdict, hookimpl


class Length(Judge):
    """The longer text has more of every flaw."""

    kinds = {"compare": "aspects"}  # noqa: RUF012

    def judge(self, replies):
        return [self.compared(len(reply.key.right), reply) for reply in replies]

    def compared(self, before, reply):
        more = float((len(reply.text) > before) - (len(reply.text) < before))
        return Verdict("decided", 1.0, ratings=dict.fromkeys(reply.key.about["aspects"], more))


@hookimpl
def edit_harness_register_judges(register):
    register("length", Length, "How long texts are")
