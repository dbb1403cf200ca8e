"""Follow a text through the project in a debugger: python -m pdb -m examples.step"""

from generate import Sequence, cached
from samplers import Sampler, temperature, top_k
from utils import load

tokenizer, model = load("stories")
ids = tokenizer.encode("Once upon a")
sampler = Sampler(temperature(0.8), top_k(40))
sequence = Sequence(model, ids, n=3, sampler=sampler, seed=0)

for token in cached(model, sequence):
    print(repr(tokenizer.decode([token])))

print(tokenizer.decode(sequence.ids))
