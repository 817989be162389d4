"""Convert language codes of corpora to the ISO 639-1 codes of tables, and detect the languages of text columns."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from disent_core.errors import CorpusError, located, quoted
from disent_core.text import language_part

_ALIASES = """
    aa=aar ab=abk ae=ave af=afr ak=aka am=amh an=arg ar=ara,arb as=asm av=ava ay=aym,ayr az=aze,azj ba=bak be=bel
    bg=bul bi=bis bm=bam bn=ben bo=bod,tib br=bre bs=bos ca=cat ce=che ch=cha co=cos cr=cre cs=ces,cze cu=chu cv=chv
    cy=cym,wel da=dan de=deu,ger dv=div dz=dzo ee=ewe el=ell,gre en=eng eo=epo es=spa et=est,ekk eu=eus,baq
    fa=fas,per,pes ff=ful,fuv fi=fin fj=fij fo=fao fr=fra,fre fy=fry ga=gle gd=gla gl=glg gn=grn,gug gu=guj gv=glv
    ha=hau he=heb hi=hin ho=hmo hr=hrv,scr ht=hat hu=hun hy=hye,arm hz=her ia=ina id=ind ie=ile ig=ibo ii=iii ik=ipk
    io=ido is=isl,ice it=ita iu=iku ja=jpn jv=jav ka=kat,geo kg=kon ki=kik kj=kua kk=kaz kl=kal km=khm kn=kan ko=kor
    kr=kau ks=kas ku=kur,kmr kv=kom kw=cor ky=kir la=lat lb=ltz lg=lug li=lim ln=lin lo=lao lt=lit lu=lub lv=lav,lvs
    mg=mlg,plt mh=mah mi=mri,mao mk=mkd,mac ml=mal mn=mon,khk mr=mar ms=msa,may,zsm mt=mlt my=mya,bur na=nau nb=nob
    nd=nde ne=nep,npi ng=ndo nl=nld,dut nn=nno no=nor nr=nbl nv=nav ny=nya oc=oci oj=oji om=orm,gaz or=ori,ory
    os=oss pa=pan pi=pli pl=pol ps=pus,pbt pt=por qu=que,quy rm=roh rn=run ro=ron,rum,mol ru=rus rw=kin sa=san
    sc=srd sd=snd se=sme sg=sag sh=hbs si=sin sk=slk,slo sl=slv sm=smo sn=sna so=som sq=sqi,alb,als sr=srp,scc
    ss=ssw st=sot su=sun sv=swe sw=swa,swh ta=tam te=tel tg=tgk th=tha ti=tir tk=tuk tl=tgl tn=tsn to=ton tr=tur
    ts=tso tt=tat tw=twi ty=tah ug=uig uk=ukr ur=urd uz=uzb,uzn ve=ven vi=vie vo=vol wa=wln wo=wol xh=xho yi=yid,ydd
    yo=yor za=zha zh=zho,chi,cmn zu=zul
"""
"""ISO 639-1 code = ISO 639-3 code, ISO 639-2/B code, and the standard variety of a macro-language (cmn of zho)."""

_OF_ALIAS = {
    alias: code
    for code, aliases in (assignment.split("=") for assignment in _ALIASES.split())
    for alias in (code, *aliases.split(","))
}
_CODE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]+)*")
_TAG = re.compile(r"([A-Za-z]{2,3})((?:[-_][A-Za-z0-9]{2,8})*)")
_LONGEST_TAG = 64
"""Most characters; RFC 5646 (section 4.4.1) expects at most 35."""

TWO_LETTER_CODES = frozenset(_OF_ALIAS.values())
"""Codes of ISO 639-1."""


def language_code(published: str) -> str:
    """`deu`, `ger`, `de` -> `de`; `cmn` -> `zh`; `yor` -> `yo`; `ber` -> `ber`; `zh_TW`, `zh-TW` -> `zh-TW`.

    Return the ISO 639-1 code of the language, or of the macro-language of which it is the standard variety; if there is
    none, the code as published. Dialects with a code of their own (`arz`, `yue`), regions, scripts and other subtags
    stay as published.
    """
    match = _TAG.fullmatch(published) if is_language_code(published) else None
    if match is None:
        raise ValueError(f"{quoted(published)} is not a language code such as en, deu or zh-TW")
    primary = match[1].lower()
    return _OF_ALIAS.get(primary, primary) + match[2].replace("_", "-")


def is_language_code(published: str) -> bool:
    """Return whether a code has the form that `language_code` accepts."""
    return len(published) <= _LONGEST_TAG and _TAG.fullmatch(published) is not None


def is_language(published: str) -> bool:
    """Return whether a name is the code of a known language, such as `de`, `deu` or `de-DE`."""
    return is_language_code(published) and language_part(language_code(published)) in TWO_LETTER_CODES


def split_codes(pair: str) -> tuple[str, str]:
    """Split the name of a pair into source and target language; if ambiguous, the source is the shortest possible."""
    for left, right in _cuts(pair):
        if _CODE.fullmatch(left) and _CODE.fullmatch(right):
            return left, right
    raise ValueError(f"{pair!r} is not two language codes such as en-de")


def split_pair(pair: str, languages: Sequence[str]) -> tuple[str, str]:
    """Split `en-de` into (`en`, `de`), even if a code contains a hyphen (`en-zh-TW`), and `en` into (`en`, `en`)."""
    if pair in languages:
        return pair, pair
    for left, right in _cuts(pair):
        if left in languages and right in languages and left != right:
            return left, right
    raise ValueError(f"{pair!r} is not a pair of two of the languages {', '.join(languages)}")


def _cuts(pair: str) -> Iterator[tuple[str, str]]:
    return ((pair[: hyphen.start()], pair[hyphen.end() :]) for hyphen in re.finditer("-", pair))


# --- languages of columns ---------------------------------------------------------------------------------

_SCRIPTS = """
    ARABIC=ar,arz,ary,arq,fa,ps,sd,ug,ur,ckb BENGALI=as,bn CJK=zh,yue,wuu,ja CYRILLIC=be,bg,ky,mk,ru,tg,uk
    DEVANAGARI=awa,bho,hi,mai,mr,ne,sa ETHIOPIC=am,ti GEORGIAN=ka GREEK=el GUJARATI=gu HANGUL=ko HEBREW=he,yi
    KANNADA=kn KHMER=km
    LATIN=ca,cs,cy,da,de,en,es,et,eu,fi,fr,ga,gl,hr,hu,id,is,it,lt,lv,nb,nl,nn,no,pl,pt,ro,sk,sl,sq,sv,tl,tr,vi
    MALAYALAM=ml ARMENIAN=hy MYANMAR=my SINHALA=si TAMIL=ta TELUGU=te THAI=th
"""
"""Unicode name of a script = languages written in it alone."""
_SCRIPT_OF = {
    language: script
    for script, languages in (assignment.split("=") for assignment in _SCRIPTS.split())
    for language in languages.split(",")
}
_KANA = {"HIRAGANA": "CJK", "KATAKANA": "CJK"}
_ENGLISH = re.compile(r"\b(the|and|is|are|was|of|with|to|an|on|at|for|his|her|their)\b")


def is_swapped(path: Path, columns: tuple[Sequence[str], Sequence[str]], languages: tuple[str, str]) -> bool:
    """Return whether the first column is in the second language rather than the first; False if undetectable.

    The majority of rows decides: by the scripts of their sentences or, if these are the same and one language is
    English, by which sentence has more English function words.
    """
    rows = list(zip(*columns, strict=True))
    row_scripts = [(_script(left), _script(right)) for left, right in rows]
    as_named = sum(_fits(scripts, languages) for scripts in row_scripts)
    as_swapped = sum(_fits(scripts[::-1], languages) for scripts in row_scripts)
    if max(as_named, as_swapped) * 2 <= len(row_scripts):
        frequent = " and ".join(script.lower() for script in Counter(row_scripts).most_common(1)[0][0])
        problem = f"most rows are in {frequent} script, which does not fit {' and '.join(languages)}"
        raise CorpusError(located(path, None, problem, "Check the name of the file"))
    if as_named != as_swapped:
        return as_swapped > as_named
    parts = [language_part(language) for language in languages]
    if parts.count("en") != 1:
        return False
    counts = [[len(_ENGLISH.findall(text.lower())) for text in row] for row in rows]
    first_is_english = sum((left > right) - (left < right) for left, right in counts)
    return first_is_english < 0 if parts[0] == "en" else first_is_english > 0


def _fits(scripts: tuple[str, ...], languages: tuple[str, str]) -> bool:
    """Return whether each script is that of its language; a language with several scripts fits any."""
    expected_scripts = (_SCRIPT_OF.get(language_part(language)) for language in languages)
    return all(expected in (None, script) for expected, script in zip(expected_scripts, scripts, strict=True))


def _script(text: str) -> str:
    scripts = [unicodedata.name(letter, "?").split()[0] for letter in text if letter.isalpha()]
    named = [_KANA.get(script, script) for script in scripts]
    return Counter(named).most_common(1)[0][0] if named else "no"
