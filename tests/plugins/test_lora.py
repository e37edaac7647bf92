from edit_harness.testing import EditorTests
from edit_harness_plugins.editors.lora import Lora

ATT = ("q_proj", "v_proj")


class TestLora(EditorTests):
    editor = Lora(targets=(), steps=4, lr=5e-3)


class TestLoraL(TestLora):
    family = "llama"


class TestLoraQ(TestLora):
    family = "qwen2"


class TestLoraG(TestLora):
    family = "gptj"
    editor = Lora(targets=("fc_in", "fc_out"), steps=4, lr=5e-3)
