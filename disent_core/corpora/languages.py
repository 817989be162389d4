"""Convert language codes of corpora to the ISO 639-1 codes of tables, where a language has one."""

import re
from collections.abc import Sequence

from disent_core.errors import quoted

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
"""Characters; RFC 5646 (section 4.4.1) expects at most 35."""

TWO_LETTER_CODES = frozenset(_OF_ALIAS.values())
"""ISO 639-1."""


def language_code(published: str) -> str:
    """`deu`, `ger`, `de` -> `de`; `cmn` -> `zh`; `yor` -> `yo`; `ber` -> `ber`; `zh_TW`, `zh-TW` -> `zh-TW`.

    Returns the ISO 639-1 code of the language, or of the macro-language of which it is the standard variety; without
    one, the code as published. Dialects that have a code (`arz`, `yue`), regions, scripts and other subtags stay as
    published.

    Raises:
        ValueError: if it does not have the form of a language code.
    """
    match = _TAG.fullmatch(published) if is_language_code(published) else None
    if match is None:
        raise ValueError(f"{quoted(published)} is not a code of a language such as en, deu or zh-TW")
    primary = match[1].lower()
    return _OF_ALIAS.get(primary, primary) + match[2].replace("_", "-")


def is_language_code(published: str) -> bool:
    """Whether a code has the form that `language_code` accepts."""
    return len(published) <= _LONGEST_TAG and _TAG.fullmatch(published) is not None


def split_codes(pair: str) -> tuple[str, str]:
    """Split the name of a pair into source and target language; if ambiguous, the source is the shortest possible.

    Raises:
        ValueError: if it is not two codes of languages with a hyphen between them.
    """
    for hyphen in re.finditer("-", pair):
        left, right = pair[: hyphen.start()], pair[hyphen.end() :]
        if _CODE.fullmatch(left) and _CODE.fullmatch(right):
            return left, right
    raise ValueError(f"{pair!r} is not two codes of languages such as en-de")


def split_pair(pair: str, languages: Sequence[str]) -> tuple[str, str]:
    """`en-de` -> (`en`, `de`), also if a code contains a hyphen (`en-zh-TW`); `en` -> (`en`, `en`).

    Raises:
        ValueError: if it is neither one nor two of the languages.
    """
    if pair in languages:
        return pair, pair
    for hyphen in re.finditer("-", pair):
        left, right = pair[: hyphen.start()], pair[hyphen.end() :]
        if left in languages and right in languages and left != right:
            return left, right
    raise ValueError(f"{pair!r} is not a pair of two of the languages {', '.join(languages)}")
