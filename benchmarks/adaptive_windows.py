"""The windows of the adaptive experiment, by seed, pattern and size, in microseconds (`paper_adaptive.py --fit`)."""

WINDOWS: dict[int, dict[str, dict[int, int]]] = {
    11: {
        "traffic-like sequence": {
            3: 45_600_000_000,
            4: 30_400_000_000,
            5: 45_600_000_000,
            6: 231_000_000_000,
            7: 103_000_000_000,
            8: 154_000_000_000,
        },
        "stock-like sequence": {3: 3_040_000, 4: 3_040_000, 5: 6_830_000, 6: 6_830_000, 7: 10_300_000, 8: 10_300_000},
    },
    107: {
        "traffic-like sequence": {3: 45_562_500_000, 5: 1_167_717_041_014, 7: 518_985_351_562},
        "traffic-like negation": {3: 102_515_625_000, 5: 102_515_625_000, 7: 345_990_234_375},
        "traffic-like conjunction": {3: 13_500_000_000, 5: 102_515_625_000, 7: 45_562_500_000},
        "traffic-like kleene": {3: 9_000_000_000, 5: 20_250_000_000, 7: 230_660_156_250},
        "traffic-like disjunction": {3: 68_343_750_000, 5: 102_515_625_000, 7: 153_773_437_500},
    },
}
