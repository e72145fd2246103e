"""Open questions whose answers are scored by the key points of a reference.

  What happens when water boils? Answer in at most three sentences.

A problem is a question with a reference answer of two or three sentences, and
its key points, each a few keywords. `rewards.verifiers.key_points` scores an
answer by these keywords, in their order, and by the rule about its length. The
task has few questions, is meant for trying out rewards of open texts, and reads
no files. Every fourth question is held out.

Usage:
  python -m experiments.evaluate --policy FOLDER --task open_questions

Source: Jiang et al. 2025, From Verifiable Dot to Reward Chain: Harnessing
Verifiable Reference-based Rewards for Reinforcement Learning of Open-ended
Generation (RLVRR). The questions and the key points are our own.
"""

from __future__ import annotations

from experiments.tasks.task import Task
from experiments.tasks.text import text_options, text_task
from experiments.tasks.text.text_options import Example, TextOptions
from rewards.verifiers import key_points

# The rule of every question, and its form for `rewards.verifiers.constraints`.
RULE = "Answer in at most three sentences."
CONSTRAINT = {
  "name": "length_constraints:number_sentences",
  "num_sentences": 4,
  "relation": "less than",
}
# Question, reference answer, and the keywords of each key point, which are
# separated by blanks, in the order of the reference.
QUESTIONS = (
  (
    "What happens when water boils?",
    "Heat makes the molecules of water move faster. Bubbles of vapor form and "
    "rise to the surface. The water turns into steam.",
    ("heat molecules", "bubbles surface", "steam"),
  ),
  (
    "Why do we have day and night?",
    "The Earth rotates around its axis once in 24 hours. The side that faces "
    "the Sun has day, and the other side has night.",
    ("Earth rotates axis", "Sun day", "night"),
  ),
  (
    "How does a plant make its food?",
    "A plant takes in carbon dioxide and water. With sunlight it makes sugar "
    "and releases oxygen. This is called photosynthesis.",
    ("carbon water", "sunlight sugar oxygen", "photosynthesis"),
  ),
  (
    "Why does ice float on water?",
    "Water expands when it freezes. Ice is therefore less dense than water and "
    "floats.",
    ("expands freezes", "less dense floats"),
  ),
  (
    "What does the heart do?",
    "The heart pumps blood through the body. It carries oxygen and nutrients "
    "to the cells.",
    ("heart pumps blood", "oxygen nutrients cells"),
  ),
  (
    "How does a rainbow form?",
    "Sunlight enters drops of rain. It is refracted and reflected, so that it "
    "splits into colors.",
    ("sunlight rain", "refracted reflected colors"),
  ),
  (
    "Why do leaves change color in autumn?",
    "In autumn there is less light and it gets colder. The leaves lose their "
    "green chlorophyll, and yellow and red pigments become visible.",
    ("less light", "chlorophyll", "yellow red"),
  ),
  (
    "What is gravity?",
    "Gravity is a force that attracts objects with mass to each other. It "
    "keeps us on the ground and planets in their orbits.",
    ("force attracts mass", "ground", "planets orbits"),
  ),
  (
    "How do vaccines work?",
    "A vaccine shows the immune system a harmless part of a germ. The body "
    "makes antibodies and remembers it.",
    ("vaccine immune germ", "antibodies remembers"),
  ),
  (
    "Why is the sky blue?",
    "Sunlight contains all colors. The air scatters blue light more than red "
    "light, and this is what we see.",
    ("sunlight colors", "scatters blue red"),
  ),
  (
    "What is a volcano?",
    "A volcano is an opening in the crust of the Earth. Magma rises through "
    "it and erupts as lava and ash.",
    ("opening crust", "magma lava ash"),
  ),
  (
    "How do bees make honey?",
    "Bees collect nectar from flowers. In the hive they remove its water and "
    "store it in the comb as honey.",
    ("nectar flowers", "hive water", "comb honey"),
  ),
  (
    "What causes the tides?",
    "The gravity of the Moon pulls the water of the oceans. As the Earth "
    "rotates, the level rises and falls twice a day.",
    ("gravity Moon oceans", "rises falls twice"),
  ),
  (
    "Why do people sleep?",
    "Sleep gives the body time to rest and to repair itself. The brain sorts "
    "memories of the day.",
    ("rest repair", "brain memories"),
  ),
  (
    "How does a magnet work?",
    "A magnet has a north and a south pole. Opposite poles attract and equal "
    "poles repel each other.",
    ("north south pole", "opposite attract", "repel"),
  ),
  (
    "What is an earthquake?",
    "The crust of the Earth consists of plates that move. When they slip, "
    "energy is released in waves that shake the ground.",
    ("crust plates", "energy waves shake"),
  ),
  (
    "Why do we recycle paper?",
    "Recycling paper saves trees. It also needs less water and energy, and "
    "there is less waste.",
    ("saves trees", "water energy", "waste"),
  ),
  (
    "How does a thermometer work?",
    "A liquid in a tube expands when it gets warm. It rises along a scale that "
    "shows the temperature.",
    ("liquid expands warm", "scale temperature"),
  ),
  (
    "What is a desert?",
    "A desert is a dry region with little rain. Few plants and animals live "
    "there, and nights can be cold.",
    ("dry rain", "plants animals", "cold"),
  ),
  (
    "How do birds fly?",
    "Birds flap their wings to push air down. Their shape gives lift, and "
    "light bones keep their weight low.",
    ("wings air", "lift", "light bones"),
  ),
  (
    "Why does iron rust?",
    "Iron reacts with oxygen and water. The result is an oxide, which is red "
    "and crumbles.",
    ("iron oxygen water", "oxide red"),
  ),
  (
    "What do the lungs do?",
    "The lungs take oxygen from the air into the blood. They remove carbon "
    "dioxide when we breathe out.",
    ("oxygen air blood", "carbon breathe"),
  ),
  (
    "How is glass made?",
    "Sand is melted at a high temperature with soda and lime. The liquid is "
    "shaped and cools to glass.",
    ("sand melted", "shaped cools"),
  ),
  (
    "Why do stars shine?",
    "In the core of a star hydrogen fuses into helium. The energy leaves the "
    "star as light.",
    ("core hydrogen helium", "energy light"),
  ),
)


@text_options.with_text_options(prompt_length=64, completion_length=128)
def open_questions(options: TextOptions) -> Task:
  """Open questions whose answers are scored by key points.

  Args:
    options: settings of all text tasks.
  """
  examples = [_example(*entry) for entry in QUESTIONS]
  return text_task.build(
    "open_questions",
    {
      "train": [x for i, x in enumerate(examples) if i % 4 != 3],
      "test": examples[3::4],
    },
    options,
    key_points.verify,
    parts=("content", "style"),
  )


def _example(question: str, reference: str, points: tuple[str, ...]) -> Example:
  return Example(
    f"{question} {RULE}",
    solution=reference,
    answer=reference,
    meta={
      "key_points": [[point.split()] for point in points],
      "constraints": [dict(CONSTRAINT)],
    },
  )
