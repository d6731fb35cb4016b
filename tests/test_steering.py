"""Which prompts steer: a rule, a correction or a choice as people type it, and the near misses that must not count."""
from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "skills/cc-compact"))
import compact_session


@pytest.mark.parametrize(("said", "strength"), [
    # rules, typed without apostrophes
    ("we dont do lodash. write the 5 lines", 3), ("i dont like that you use any there", 3), ("ok but dont touch the api", 3), ("it cant be null there", 3),
    ("drafts shouldnt get that far in the first place!!", 3), ("it has to use that one", 3), ("the dates have to match", 3), ("numbers need a comma not a dot", 3),
    ("by letter only, no email", 3), ("level 1 and 2 only", 3), ("yes, conventional commits. no co-author line please", 3),
    ("use margin boxes then but leave the old css in", 3), ("leave the tests as they were", 3), ("3. email attachments keep the old filename scheme", 3),
    ("eben. also bitte drin lassen", 3), ("bitte nichts am schema", 3), ("die datei nicht löschen", 3), ("nur die tests", 3), ("immer mit tests", 3),
    ("ne touche pas aux migrations", 3), ("il faut garder le timeout", 3), ("no toques la base", 3), ("siempre con pruebas", 3), ("hay que usar utc", 3),
    ("can you please not touch package.json", 3), ("no emojis", 3), ("rule here: no default exports", 3), ("nimm jinja, kein mako", 3),
    ("im betreff muss immer die nummer stehen", 3), ("das log darf keine namen enthalten", 3), ("you should only change the service layer", 3), ("commits should be small", 3), ("ask before you delete a file", 3),
    ("treat the vendor folder as read-only", 3), ("stay away from the old module", 3), ("no migrations against it", 3), ("nothing goes out without my ok", 3),
    ("you can touch everything except the schema", 3), ("iso dates everywhere", 3), ("we're not allowed to log mails", 3), ("all new routes need auth", 3),
    ("house rule: tabs", 3), ("hard requirement: it stays on 3.9", 3), ("tests go into tests/unit, nowhere else", 3), ("the key may only be read there", 3),
    ("for the rest of this session run the linter first", 3), ("per le date usa sempre utc", 3), ("não mexa nas migrations", 3), ("gebruik nooit sudo", 3),
    ("rör aldrig schemat", 3), ("nigdy nie usuwaj logów", 3), ("tak, ale никогда не трогай схему", 3), ("хорошо. всегда запускай тесты", 3),
    ("好的。不要修改接口", 3), ("提交前必须先运行测试", 3), ("スキーマは絶対に変更しないで", 3), ("테스트 폴더는 절대 건드리지 마", 3),
    ("du darfst main nie pushen", 3), ("n'utilise pas git ici", 3), ("toujours passer par le proxy", 3), ("we can't break the old clients", 3),
    ("go on with the letters\nnever touch the bills", 3), ("no\nthe other one", 3), ("the old form has to stay", 3), ("i need seconds and not minutes", 3),
    ("we're not using redis here", 3), ("only the last one has it", 0), ("try again", 0), ("use both and that one test fails", 0),
    ("everything has to go through me first", 3), ("if in doubt ask", 3), ("ab jetzt nur auf deutsch", 3),
    # corrections
    ("try again, the count is off", 3), ("too complicated.", 3), ("das stimmt nicht, die quelle ist csv", 3), ("不对，应该是第二个", 3), ("違う、後の方です", 3), ("нет, нужен второй", 3),
    ("the numbers are STILL with a dot in the total column", 3), ("still missing on page 2", 3), ("hm, other way round", 3), ("that doesnt work", 3),
    ("why did you add lodash??", 3), ("wait why are you touching the scheduler", 3), ("i just told you to keep it", 3), ("like i already said", 3),
    ("put that into playwright.config not into the package.json", 3), ("use the new one, not the old", 3), ("thats not what i meant", 3),
    ("you changed the signature, callers break", 3), ("you still haven't fixed the footer", 3), ("forget the socket idea", 3), ("hold off on that", 3),
    ("almost, but the header moves", 3), ("ok get rid of the cache again", 3), ("i changed my mind, we keep csv", 3), ("• no, by date", 3),
    ("so nicht", 3), ("immer noch kaputt", 3), ("pas comme ça", 3), ("así no", 3), ("toujours pas", 3),
    # German, French, Spanish, Russian, Chinese, Japanese, Korean
    ("und finger weg vom namespace payments", 3), ("auf prod wird nichts applied, bevor ich ja sage", 3), ("gut, aber ohne -auto-approve", 3), ("ne, nimm 1.19.3", 3),
    ("ich hab doch gesagt erst den plan", 3), ("wir bleiben bei postgres", 3), ("mach das rückgängig", 3), ("nicht pushen, die ci ist rot", 3),
    ("garde natbib, l'école l'impose", 3), ("ce n'est pas ce que j'ai demandé", 3), ("plutôt la deuxième", 3), ("sans nouvelle dépendance", 3),
    ("no inventes few ni many", 3), ("no lo des por bueno sin él", 3), ("me equivoqué antes", 3), ("deja el módulo como está", 3), ("eso no es lo que pedí", 3),
    ("не перекодируй файлы", 3), ("никаких round", 3), ("стоп! верни вызов", 3), ("я же сказал без orm", 3), ("должно быть так же до копейки", 3),
    ("外键不能用触发器", 3), ("别提交", 3), ("方案一", 3), ("改回去", 3), ("只能在预发跑", 3), ("UIKitは使わないでください", 3), ("元に戻して", 3), ("勝手にコミットしないこと", 3), ("건드리지 마", 3),
    ("who told you it is low?", 3), ("strip the outputs first", 3), ("that one is a false positive, ignore", 2),
    # choices
    ("lets go with the queue", 2), ("ok lets use sqlite", 2), ("B", 2), ("yes, b.", 2), ("both please", 2), ("redis then", 2), ("the latter", 2), ("skip it", 2), ("the enum is nicer", 2), ("we can live with that", 2),
    ("let's not", 2), ("decision: sqlite", 2), ("1", 2), ("the first", 2), ("i'd take redis", 2), ("postgres wins", 2), ("lgtm", 2), ("my vote is the enum", 2),
    # near misses
    ("we dont know yet", 0), ("i dont think so", 0), ("why shouldnt it be a list?", 0), ("shouldnt that be cached?", 0), ("does it have to run twice?", 0),
    ("it has to do with the clock", 0), ("i have to go now", 0), ("do they have to log in?", 0), ("no idea please help", 0), ("no problem please go on", 0),
    ("if only.", 0), ("is the mount read only?", 0), ("does it keep the old state?", 0), ("did i leave the oven on", 0), ("und nichts passiert", 0),
    ("nur kurz: was heißt das", 0), ("nur so nebenbei", 0), ("nie gesehen", 0), ("il faut voir", 0), ("is there another way round this?", 0),
    ("are you still there?", 0), ("is he still with us?", 0), ("why do you think that is?", 0), ("why would you suggest this?", 0),
    ("add it if not there", 0), ("use it or not", 0), ("which lets us use the cache", 0), ("what about the totals", 0), ("can you want that", 0),
    ("the constant is 5", 0), ("is there still time", 0), ("the only one", 0), ("k thx", 0), ("that should be it", 0), ("405 method not allowed", 0), ("does it still say that?", 0), ("you mentioned a race", 0), ("see you then", 0),
    ("ok then", 0), ("both tests are green", 0), ("no luck yet", 0), ("no errors", 0), ("no tests yet", 0), ("keine ahnung", 0), ("it works without my changes", 0), ("remember the bug?", 0), ("do all the tests need docker?", 0),
    ("it may not exist yet", 0), ("it may only take a second", 0), ("não sei", 0), ("ça n'est pas grave", 0), ("we can't reproduce it", 0), ("too much memory is used", 0), ("it wins by 2 points", 0), ("i take it that works", 0), ("use version 1.", 0), ("интернет, что нового", 0), ("é isso? да, спасибо", 0), ("测试通过了", 0), ("i want to see it", 0), ("treating it as text works", 0), ("yes do that", 0), ("warum ist das so", 0),
    ("halt dich kurz", 0), ("die tests laufen ohne fehler durch", 0), ("peux-tu expliquer cette erreur ?", 0), ("no sé por qué falla", 0), ("не понимаю, почему падает", 0),
    ("не могу найти файл", 0), ("为什么不能登录", 0), ("别的文件呢", 0), ("動かないのはなぜ?", 0), ("non-breaking spaces show up", 0), ("nix flake update fails", 0), ("what happens first?", 0), ("body: arial, sans serif", 0), ("x = made()  # type: ignore[misc]", 0),
])
def test_what_steers(said: str, strength: int) -> None:
    assert compact_session.cue(said).strength == strength


@pytest.mark.parametrize(("line", "steering", "limit", "said"), [
    ("1. dunning letters 2. then the reminders", 0, 32, "1. dunning letters 2. then the …"),
    ("First the letters are done. Then come the reminders", 0, 40, "First the letters are done. …"),
    ("look at it. Always run the check, whatever comes", 17, 36, "… Always run the check, whatever comes"[:35] + "…"),
    ("先看一下代码。数据库迁移请先在本地测试，绝对不要修改表结构", 22, 20, "… 请先在本地测试，绝对不要修改表结构"),
    ("先看一下代码，确认价格表的格式是否一致，数据库迁移请先在本地测试，绝对不要修改表结构", 35, 16, "… 在本地测试，绝对不要修改表…"),
    ("Start over. Never again like this", 17, 30, "… Never again like this"),
    ("Start over\nNever again like this", 16, 30, "… Never again like this"),
    ("Never again. What else is there to be said of it", 5, 40, "Never again. …"),
])
def test_a_prompt_is_cut_at_a_sentence_but_not_behind_a_lists_number(line: str, steering: int, limit: int, said: str) -> None:
    assert compact_session.gist(line, steering, limit) == said
