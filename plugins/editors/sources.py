"""Where the hyperparameters of presets come from: names that several editors share."""

KMENG = "kmeng01/rome"
MEMIT = "kmeng01/memit"
MEND = "eric-mitchell/mend"
EASYEDIT = "EasyEdit"
ALPHAEDIT = "AlphaEdit"
UNIFIED = "unified-model-editing"
OURS = "this project, by experiments on pocket"
