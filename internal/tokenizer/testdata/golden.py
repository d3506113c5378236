# Writes llama3-tiny.tokenizer.json, gpt2-tiny.tokenizer.json and golden.json:
# what the Hugging Face tokenizers library (0.23.3) makes of texts and of ids.
# Run by hand: python golden.py
import json
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
corpus = ["The recovery may take thirty minutes, and it's the region's turn in 2026.",
          "hello world, hello region; we'll take over 12345 times\n\n  indented\tcode();",
          "Ünïcödé naïve 日本語 日本 emoji 😀 😀 don't DON'T"] * 40


def build(pre, ignore_merges, bos):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=360, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_special_tokens([AddedToken("<s>", special=True), AddedToken("<|user|>", special=True),
                          AddedToken("<|user|>x", special=True), AddedToken("<mask>", lstrip=True, special=True),
                          AddedToken("<r>", rstrip=True, special=True)])
    t.add_tokens([AddedToken("lone", single_word=True, normalized=False), AddedToken("plain text", normalized=True), AddedToken("é", normalized=False)])
    post = [processors.ByteLevel(trim_offsets=False)]
    if bos:
        post.append(processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", t.token_to_id("<s>"))]))
    t.post_processor = processors.Sequence(post)
    return t


llama = build(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), True, True)
qwen = build(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3.replace("{1,3}", "")), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), False, False)
gpt2 = build(pre_tokenizers.ByteLevel(add_prefix_space=True), False, False)

texts = ["", " ", "  ", "a", " a", "  a  ", "\n", "\r\n\r\n x", " \n \n  y", "tab\t\tx\t", "it's IT'S 'tis 'LLama we'LL 'ſo 'Re", "1234567 12 ٣٤٥ ⅷ²",
         "f(x)=[1,2];\n\n\nreturn!\r\n", "日本語 テスト　全角", "😀😀 👩‍👩‍👧 é e\u0301", "\u00a0nbsp\u2003em\u3000", "\u0085nel\u2028ls", "<s>Hello<|user|>x y<|user|> z",
         "<|user|", "a  <mask>  b", "a  <r>  b <r><mask>", "lone alone lone. _lone lone_ lonelone", "plain text,plain  text", "café cafe\u0301 naïve", "hello"*30, "a"*300, "\x00\x01\x7f", "ß ŉ Ǆ", "a\u0300b", "!!!???...   ---", "x'y'z ''s '' 's", "thirty minutes"]
rng = random.Random(7)
alphabet = list("abtreszs  \n\r\t'.,!0123456789éß日語😀ſ\u00a0\u2028\u0300") + ["<mask>", "<r>", "lone", "'s", "'LL", "<|user|>", " the", "recovery", "plain text"]
texts += ["".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 40))) for _ in range(150)]

out = {}
for name, t in {"llama3": llama, "qwen2": qwen, "gpt2": gpt2}.items():
    t.save(f"{name}-tiny.tokenizer.json", pretty=False)
    n = t.get_vocab_size()
    ids = [[rng.randrange(n) for _ in range(rng.randrange(1, 12))] for _ in range(80)]
    out[name] = {"encode": [{"text": x, "ids": t.encode(x).ids, "plain": t.encode(x, add_special_tokens=False).ids} for x in texts],
                 "decode": [{"ids": i, "text": t.decode(i), "all": t.decode(i, skip_special_tokens=False)} for i in ids]}
json.dump(out, open("golden.json", "w"), ensure_ascii=True, separators=(",", ":"))
