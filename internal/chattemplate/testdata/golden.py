# Writes golden.json: renderings by Jinja2 in the environment that transformers
# sets up for chat templates. Run by hand: python golden.py
import json

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception

templates = {
    "chatml": """{% for message in messages %}
    {% if loop.first and message['role'] != 'system' %}
        {{- '<|im_start|>system\\nYou help.<|im_end|>\\n' }}
    {% endif %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
{% endfor %}
{% if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{% endif %}
""",
    "headers": """{{- bos_token }}
{%- if tools is not none %}TOOLS{% endif %}
{%- if not date_string is defined %}{%- set date_string = "26 Jul 2024" %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start|>system<|end|>\\n\\nToday: " + date_string + "\\n\\n" + system_message + "<|eot|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start|>' + message['role'] + '<|end|>\\n\\n'+ message['content'] | trim + '<|eot|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant<|end|>\\n\\n' }}{%- endif %}
""",
    "alternate": """{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token }}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}""",
    "namespace": """{%- set ns = namespace(last=-1, found=false) -%}
{%- for m in messages -%}
  {%- if m.role == "user" and not ns.found -%}{%- set ns.last = loop.index0 -%}{%- endif -%}
{%- endfor -%}
last={{ ns.last }} n={{ messages|length }}
{% for m in messages %}
{{ loop.index }}/{{ loop.length }} {{ m.role | upper }}: {{ m.content.strip() }}{% if not loop.last %};{% endif %}

{% endfor %}
""",
    "json": """{{ messages | tojson }}
{{ messages[0] | tojson(indent=2) }}
{{ {'a': 1, 'b': [true, none, 'x<y>&\\'z\\'']} | tojson }}
{{ [] | tojson }}{{ {} | tojson(indent=4) }}""",
    "macro": """{%- macro turn(m, end='') -%}
<{{ m.role }}>{{ m.content }}{{ end }}
{%- endmacro -%}
{%- for m in messages -%}{{ turn(m, end='</s>') }}{%- endfor -%}
{%- for i in range(3) -%}{{ i }},{%- endfor -%}
{%- for m in messages if m.role == 'user' -%}[{{ m.content | replace('a', 'o') }}]{%- endfor -%}
{%- for m in messages -%}{%- if loop.index0 == 1 -%}{%- break -%}{%- endif -%}({{ m['role'][:2] }}){%- endfor %}
""",
    "whitespace": "  {# note #}\n  {% if true %}\n  keep\n  {% endif %}\n\t{{- ' x ' -}}\n  y  \n{%+ if true %} z{% endif %}\nend\n\n",
    "tests": "{% for m in messages %}{{ m.content is string }}{{ m.other is defined }}{{ m.content is mapping }}{{ 'a' in m.content }}{{ m.content.split(' ')[0] }}{{ m.content.startswith('H') }}{{ (m.content ~ 1) | length }}|{% endfor %}{{ tools is none }}{{ documents is none }}{{ nothing is defined }}{{ true }}{{ 1.5 }}{{ 7 // 2 }}{{ 7 % 3 }}",
    "nofilter": "{{ messages | shout }}",
    "include": "{% include '/etc/hostname' %}",
    "broken": "{% if x %}",
}
chats = {
    "user": [{"role": "user", "content": " Hi all "}],
    "system": [{"role": "system", "content": "  Be brief.\n"}, {"role": "user", "content": "Hello 'a' <b> & \"c\" \u2028 日本"}],
    "three": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "Hb"}, {"role": "user", "content": "c\td\\"}],
}
out = []
for name, source in templates.items():
    for chat, messages in chats.items():
        for gen in (True, False):
            case = {"template": name, "source": source, "messages": messages, "gen": gen, "text": None, "error": None}
            try:
                case["text"] = env.from_string(source).render(messages=messages, add_generation_prompt=gen, bos_token="<s>", eos_token="</s>", tools=None, documents=None)
            except Exception as e:
                case["error"] = type(e).__name__ + ": " + str(e)
            out.append(case)
json.dump(out, open("golden.json", "w"), ensure_ascii=True, indent=0)
