"""The papers that tasks and measures come from, as citations; the equations stand with the measures."""

ROME = (
    "Meng, Bau, Andonian, Belinkov: Locating and Editing Factual Associations in GPT. NeurIPS 2022"
)
MEMIT = "Meng, Sen Sharma, Andonian, Belinkov, Bau: Mass-Editing Memory in a Transformer. ICLR 2023"
COUNTERFACT_PLUS = (
    "Hoelscher-Obermaier, Persson, Kran, Konstas, Barez: Detecting Edit Failures in Large Language "
    "Models: An Improved Specificity Benchmark. Findings of ACL 2023"
)
ENTROPY = (
    "Zhang, Galley, Gao, Gan, Li, Brockett, Dolan: Generating Informative and Diverse "
    "Conversational Responses via Adversarial Information Maximization. NeurIPS 2018"
)
EASYEDIT = (
    "Wang et al.: EasyEdit: An Easy-to-use Knowledge Editing Framework for Large Language Models. "
    "ACL 2024, system demonstrations"
)
RULE_EDIT = "RULE-EDIT (anonymous submission), Tables 1-3"
SEESAW = (
    'Halevy, Sotnikova, AlKhamissi, Montariol, Bosselut: "Flex Tape Can\'t Fix That": Bias and '
    "Misinformation in Edited Language Models. EMNLP 2024"
)
PAIRWISE = (
    "Zheng et al.: Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena. NeurIPS 2023, Datasets and "
    "Benchmarks"
)
WILD = "Yang, Sun, Tan, Ma, Cao, Yin, Shen, Cheng: The Mirage of Model Editing: Revisiting Evaluation in the Wild. ACL 2025"
WIKIBIGEDIT = (
    "Thede, Roth, Bethge, Akata, Hartvigsen: WikiBigEdit: Understanding the Limits of Lifelong Knowledge "
    "Editing in LLMs. ICML 2025"
)
MQUAKE = (
    "Zhong, Wu, Manning, Potts, Chen: MQuAKE: Assessing Knowledge Editing in Language Models via "
    "Multi-Hop Questions. EMNLP 2023"
)
RIPPLE_EDITS = (
    "Cohen, Biran, Yoran, Globerson, Geva: Evaluating the Ripple Effects of Knowledge Editing in "
    "Language Models. TACL 2024"
)
