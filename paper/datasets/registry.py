"""The 31 data sets of the paper: what they are, where they come from, how raw files are encoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Raw:
    """Format of the raw files of a set and how they are encoded.

    Attributes
    ----------
    files : tuple of str
        Names of the files, in the order of their rows.
    separator : str or None
        Delimiter of the fields; None: any white space, "libsvm": that format.
    label : int
        Field that holds the class.
    positive : str
        Name of the positive class.
    drop : tuple of int
        Fields that are not features.
    header : bool
        True if the first line names the fields.
    missing : "refuse" or "drop"
        Treatment of rows with a question mark.
    codes : mapping of str to float
        Number of each text in a field; empty if the fields are numbers.
    categories : tuple of int
        Fields whose codes become 0, 1, ... in the order of the alphabet.
    """

    files: tuple[str, ...]
    separator: str | None = ","
    label: int = -1
    positive: str = "1"
    drop: tuple[int, ...] = ()
    header: bool = False
    missing: str = "refuse"
    codes: Mapping[str, float] = field(default_factory=dict)
    categories: tuple[int, ...] = ()


@dataclass(frozen=True)
class DataSet:
    """One set of the paper's Table 2.

    Attributes
    ----------
    number : int
        In the paper's tables.
    name : str
        Of the prepared file, ``name.csv.gz``.
    title : str
        As the paper has it.
    dimension : int
        Number of features.
    positives, negatives : int
        Rows of each class.
    positive : str
        What the positive class is.
    origin : str
        The public page, by its name, at the UCI Machine Learning Repository or among LIBSVM's data
        sets for two classes.
    encoding : str
        What was done to the raw files.
    raw : Raw or None
        The same for a machine; None where no public file leads to the prepared one.
    sha256 : str
        Of the rows as little-endian doubles, features then label, which does not depend on how a
        file is compressed or its columns are called.
    """

    number: int
    name: str
    title: str
    dimension: int
    positives: int
    negatives: int
    positive: str
    origin: str
    encoding: str
    raw: Raw | None
    sha256: str

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.positives + self.negatives

    @property
    def ratio(self) -> float:
        """Positives for each negative."""
        return self.positives / self.negatives


_STAND_IN = (
    "a stand-in, for the paper's reduction to 3 features is unpublished: no headers, no quotes, "
    "TF-IDF, truncated SVD"
)
# fmt: off
_ALL = (
    DataSet(
        1, "monks-3", "Monks-3", 6, 60, 62, "class 1",
        "UCI: MONK's Problems (training file of MONK-3)",
        "integers as they are, identifier dropped",
        Raw(("monks-3.train",), None, label=0, positive="1", drop=(-1,)),
        "98c6bf6998e6606b95e24fc2ef4733b41b20d3fbf9bc99f856304f1051607ecc",
    ),
    DataSet(
        2, "monks-1", "Monks-1", 6, 62, 62, "class 1",
        "UCI: MONK's Problems (training file of MONK-1)",
        "integers as they are, identifier dropped",
        Raw(("monks-1.train",), None, label=0, positive="1", drop=(-1,)),
        "8350a72f43c4a5a4b98bc028cb8348d2a0481cfcfd4290afc36533c07e505f7f",
    ),
    DataSet(
        3, "monks-2", "Monks-2", 6, 64, 105, "class 1",
        "UCI: MONK's Problems (training file of MONK-2)",
        "integers as they are, identifier dropped",
        Raw(("monks-2.train",), None, label=0, positive="1", drop=(-1,)),
        "9be90a6d2e77d6bf57c7d7a29a2428b319b379e7ef24f645e1ca3b207e7cf4a3",
    ),
    DataSet(
        4, "wpbc", "Wpbc", 33, 46, 148, "R, recurrent",
        "UCI: Breast Cancer Wisconsin (Prognostic)",
        "identifier dropped, time kept; the 4 rows with ? dropped",
        Raw(("wpbc.data",), label=1, positive="R", drop=(0,), missing="drop"),
        "8acead18a8526a3e6c445eb1010f0e21593c75b5424b9c63931ff14c696252da",
    ),
    DataSet(
        5, "parkinsons", "Parkinsons", 22, 147, 48, "status 1, Parkinson's",
        "UCI: Parkinsons",
        "name dropped",
        Raw(("parkinsons.data",), label=17, positive="1", drop=(0,), header=True),
        "26b3d6620cfe53a101d1e04e6055c716dfe3e4a6eaa6f54291062ec2017afe77",
    ),
    DataSet(
        6, "sonar", "Sonar", 60, 111, 97, "M, mine",
        "UCI: Connectionist Bench (Sonar, Mines vs. Rocks)",
        "as it is",
        Raw(("sonar.all-data",), label=-1, positive="M"),
        "6cc93c7e96f4dde720a60f1dd2f0cb3a5e4b394a9fc96add5397e38b4dfc78ae",
    ),
    DataSet(
        7, "spectf-heart", "SPECTF-heart", 44, 212, 55, "1, abnormal",
        "UCI: SPECTF Heart",
        "80 training rows, then the 187 test rows of the corrected release",
        Raw(("SPECTF.train", "SPECTF.test"), label=0, positive="1"),
        "cdc9f2875fed674661a723034f26a39a667c29ef113f8efc29d4a7b556c9fb44",
    ),
    DataSet(
        8, "statlog-heart", "StatLog-heart", 13, 120, 150, "2, disease present",
        "UCI: Statlog (Heart)",
        "as it is",
        Raw(("heart.dat",), None, label=-1, positive="2"),
        "f93653e9830b333019080961188baa4682ef5e04688dc474e86e5bee52280e34",
    ),
    DataSet(
        9, "bupa-liver", "BUPA-liver", 6, 200, 145, "selector 2",
        "UCI: Liver Disorders (BUPA)",
        "the selector, by custom, is the class",
        Raw(("bupa.data",), label=-1, positive="2"),
        "d8d1921e5f8187e2be6ab7ddf62a217a645e44ae80f1c27b5e3ca9921ebec0e6",
    ),
    DataSet(
        10, "ionosphere", "Ionosphere", 34, 126, 225, "b, bad",
        "UCI: Ionosphere",
        "as it is; the second feature is constant",
        Raw(("ionosphere.data",), label=-1, positive="b"),
        "468ffc065c627b5c2ed1c7383ceb88c1b403f4fc04c1b4a7f3a011f88fc8144a",
    ),
    DataSet(
        11, "votes", "Votes", 16, 267, 168, "democrat",
        "UCI: Congressional Voting Records",
        "n = 0, ? = 0.5, y = 1; no row dropped",
        Raw(("house-votes-84.data",), label=0, positive="democrat",
            codes={"n": 0.0, "?": 0.5, "y": 1.0}),
        "4ae7a314a33e0b975675ef52057a0556d981735fda3ca5e5196500fa5743a82b",
    ),
    DataSet(
        12, "musk-clean-1", "Musk-clean-1", 166, 207, 269, "1, musk",
        "UCI: Musk (Version 1)",
        "names of molecule and conformation dropped",
        Raw(("clean1.data",), label=-1, positive="1", drop=(0, 1)),
        "876bf94d0e03f22313a7e61e48ca2cdd37f39c9f23a657ce44719ba7eefcd03e",
    ),
    DataSet(
        13, "wdbc", "Wdbc", 30, 357, 212, "B, benign",
        "UCI: Breast Cancer Wisconsin (Diagnostic)",
        "identifier dropped",
        Raw(("wdbc.data",), label=1, positive="B", drop=(0,)),
        "fe5b6a5c24060b8af6fb6d1f02e3ca2045bafd758304a5091bcd531c652c2d8a",
    ),
    DataSet(
        14, "credit-app", "Credit-app", 15, 357, 296, "-, not approved",
        "UCI: Credit Approval (crx)",
        "37 rows with ? dropped; text codes are 0, 1, ... by alphabet",
        Raw(("crx.data",), label=-1, positive="-", missing="drop",
            categories=(0, 3, 4, 5, 6, 8, 9, 11, 12)),
        "7a5de53dc12a5ac63cfce5ea4b92cc27274bbbd2ab9c9510bcc911b348481707",
    ),
    DataSet(
        15, "breast-cancer-w", "Breast-cancer-W", 9, 239, 444, "4, malignant",
        "UCI: Breast Cancer Wisconsin (Original)",
        "identifier dropped; 16 rows with ? dropped",
        Raw(("breast-cancer-wisconsin.data",), label=-1, positive="4", drop=(0,), missing="drop"),
        "cd3fa92215518e0a408388cff88d0f9332930c35e4100a07f4787125cd644290",
    ),
    DataSet(
        16, "statlog-australian", "Statlog-australian", 14, 307, 383, "1",
        "UCI: Statlog (Australian Credit Approval)",
        "as it is",
        Raw(("australian.dat",), None, label=-1, positive="1"),
        "b76c37e8562486f0d0dfac07a6ae5816ded3824d88c1a9a961d56f5f315e98ac",
    ),
    DataSet(
        17, "blood-transfusion", "Blood-transfusion", 4, 178, 570, "1, donated",
        "UCI: Blood Transfusion Service Center",
        "as it is",
        Raw(("transfusion.data",), label=-1, positive="1", header=True),
        "aa5cff25659359940c1c660b1b2786d035a6e30682f7ce20ea9b92d3d5ea4043",
    ),
    DataSet(
        18, "pima-diabetes", "Pima-diabetes", 8, 268, 500, "1, tested positive",
        "UCI: Pima Indians Diabetes (withdrawn there since; copies are many)",
        "as it is; zeros that stand for missing are left",
        Raw(("pima-indians-diabetes.data",), label=-1, positive="1"),
        "5f9d4abb4c2e31582f3f09f7a8eb83ef9c157c67da99cdc55c64ab8fcabcf47f",
    ),
    DataSet(
        19, "mammographic", "Mammographic", 5, 403, 427, "1, malignant",
        "UCI: Mammographic Mass",
        "131 rows with ? dropped; a BI-RADS of 55 is left",
        Raw(("mammographic_masses.data",), label=-1, positive="1", missing="drop"),
        "bf36cd7e46b31155d00b63c351f42cc033e8976466606db8abea0e75ff63b15d",
    ),
    DataSet(
        20, "tic-tac-toe", "Tic-tac-toe", 9, 332, 626, "negative: x does not win",
        "UCI: Tic-Tac-Toe Endgame",
        "b = 0, o = 1, x = 2",
        Raw(("tic-tac-toe.data",), label=-1, positive="negative",
            codes={"b": 0.0, "o": 1.0, "x": 2.0}),
        "1ef598fbb2af18038bfcac1b7b41d5e705b9f1265be61f30bde01c6f6111bc96",
    ),
    DataSet(
        21, "statlog-german", "Statlog-german", 24, 700, 300, "1, good",
        "UCI: Statlog (German Credit Data), numeric version",
        "as it is",
        Raw(("german.data-numeric",), None, label=-1, positive="1"),
        "148e43e997039c7457938237d69f86495bf079b2bd87b33d6018f596a6e4b31e",
    ),
    DataSet(
        22, "ozone-eight", "Ozone-eight", 72, 128, 1719, "1, ozone day",
        "UCI: Ozone Level Detection (eighthr)",
        "date dropped; rows with ? dropped",
        Raw(("eighthr.data",), label=-1, positive="1", drop=(0,), missing="drop"),
        "7545093d72bb5fb4c45afabdb2b72913e5e34168cb8a92e6137f105383aae5b9",
    ),
    DataSet(
        23, "ozone-one", "Ozone-one", 72, 57, 1791, "1, ozone day",
        "UCI: Ozone Level Detection (onehr)",
        "date dropped; rows with ? dropped",
        Raw(("onehr.data",), label=-1, positive="1", drop=(0,), missing="drop"),
        "6b0ff36351467d81164e27d1379abc048797ad1af2b44f89d0cde662b69d690c",
    ),
    DataSet(
        24, "20news-talk", "20News-talk", 3, 940, 910, "talk.politics.mideast",
        "20 Newsgroups, by-date version: talk.politics.guns against talk.politics.mideast",
        _STAND_IN,
        None,
        "a0c916a30117dd4ad4101219690c66747e70c02628a79f5687528512960aa30f",
    ),
    DataSet(
        25, "20news-comp", "20News-comp", 3, 963, 982, "comp.sys.mac.hardware",
        "20 Newsgroups, by-date version: comp.sys.ibm.pc.hardware against comp.sys.mac.hardware",
        _STAND_IN,
        None,
        "cbef79bcacb2d47936c120908bb636e5a0e52898f00f188daa49f5535719c823",
    ),
    DataSet(
        26, "20news-sci", "20News-sci", 3, 987, 984, "sci.space",
        "20 Newsgroups, by-date version: sci.electronics against sci.space",
        _STAND_IN,
        None,
        "7920a55ce579556888c24dd2d13dea5289b655d1660662ef9ad1b061bbcb95f0",
    ),
    DataSet(
        27, "spambase", "Spambase", 57, 1813, 2788, "1, spam",
        "UCI: Spambase",
        "as it is",
        Raw(("spambase.data",), label=-1, positive="1"),
        "57dc4670a703ed187ea9e46fadbb031d74649e2dc4ba1c24949cd1e53dc64f9f",
    ),
    DataSet(
        28, "mushroom", "Mushroom", 22, 3488, 2156, "e, edible",
        "UCI: Mushroom",
        "2480 rows with ? dropped; codes are 0, 1, ... by alphabet",
        Raw(("agaricus-lepiota.data",), label=0, positive="e", missing="drop",
            categories=tuple(range(1, 23))),
        "93a3d7339d0ca4dac422e45f0585bd94e077ff160f8ed6a9ba464bf20c889b09",
    ),
    DataSet(
        29, "cod-rna", "Cod-rna", 8, 19845, 39690, "+1",
        "LIBSVM: cod-rna (training file)",
        "as it is, not scaled",
        Raw(("cod-rna",), "libsvm", positive="1"),
        "88357e30bc3a268b409ffa893ee84d36483da1ff5e442922c03335c8b64ee76d",
    ),
    DataSet(
        30, "ijcnn1", "Ijcnn1", 22, 13565, 128126, "+1",
        "LIBSVM: ijcnn1 (training file, then test file)",
        "absent entries are 0",
        Raw(("ijcnn1", "ijcnn1.t"), "libsvm", positive="1"),
        "267b2421af703ce9fd4bf63022e6f77b82f34a2a57cbea4787185df637d6ed80",
    ),
    DataSet(
        31, "skin-nonskin", "Skin-nonskin", 3, 50859, 194198, "1, skin",
        "UCI: Skin Segmentation",
        "as it is: B, G, R",
        Raw(("Skin_NonSkin.txt",), None, label=-1, positive="1"),
        "039bc97ff43ffa5bcbf983d602c373b5e6d7fbc5c0c7ffd2169dc77c884cf6d8",
    ),
)
# fmt: on
#: All sets by name, as :class:`DataSet`.
SETS = {one.name: one for one in _ALL}
