"""Codes of languages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disent_core.corpora.languages import TWO_LETTER_CODES, is_language_code, language_code

LASER = """
    afr=af amh=am ang=ang ara=ar arq=arq arz=arz ast=ast awa=awa aze=az bel=be ben=bn ber=ber bos=bs bre=br bul=bg
    cat=ca cbk=cbk ceb=ceb ces=cs cha=ch cmn=zh cor=kw csb=csb cym=cy dan=da deu=de dsb=dsb dtp=dtp ell=el epo=eo
    est=et eus=eu fao=fo fin=fi fra=fr fry=fy gla=gd gle=ga glg=gl gsw=gsw heb=he hin=hi hrv=hr hsb=hsb hun=hu
    hye=hy ido=io ile=ie ina=ia ind=id isl=is ita=it jav=jv jpn=ja kab=kab kat=ka kaz=kk khm=km kor=ko kur=ku
    kzj=kzj lat=la lfn=lfn lit=lt lvs=lv mal=ml mar=mr max=max mhr=mhr mkd=mk mon=mn nds=nds nld=nl nno=nn nob=nb
    nov=nov oci=oc orv=orv pam=pam pes=fa pms=pms pol=pl por=pt ron=ro rus=ru slk=sk slv=sl spa=es sqi=sq srp=sr
    swe=sv swg=swg swh=sw tam=ta tat=tt tel=te tgl=tl tha=th tuk=tk tur=tr tzl=tzl uig=ug ukr=uk urd=ur uzb=uz
    vie=vi war=war wuu=wuu xho=xh yid=yi yue=yue zsm=ms
"""


def test_every_language_of_the_tatoeba_test_sets_has_its_code():
    codes = dict(entry.split("=") for entry in LASER.split())
    assert len(codes) == 112
    assert {published: language_code(published) for published in codes} == codes
    assert len(set(codes.values())) == 112
    assert len(TWO_LETTER_CODES) == 184  # those of ISO 639-1


@pytest.mark.parametrize(
    ("published", "code"),
    [
        *[("zho", "zh"), ("chi", "zh"), ("arb", "ar"), ("ger", "de"), ("fre", "fr"), ("fas", "fa"), ("per", "fa")],
        *[("yor", "yo"), ("swa", "sw"), ("hau", "ha"), ("DE", "de"), ("de", "de"), ("luo", "luo"), ("nap", "nap")],
        *[("zh-TW", "zh-TW"), ("zh_TW", "zh-TW"), ("cmn-Hant", "zh-Hant"), ("de-st", "de-st"), ("pt-br", "pt-br")],
    ],
)
def test_codes_of_three_letters_become_two_where_there_are_two(published, code):
    assert language_code(published) == code


@pytest.mark.parametrize("odd", ["", "e", "english", "en-", "-en", "e1", "en de", "txt1", "../en"])
def test_an_invalid_language_code_is_refused(odd):
    assert not is_language_code(odd)
    with pytest.raises(ValueError, match="not a language code"):
        language_code(odd)


@given(st.from_regex(r"[a-z]{2,3}(-[A-Z]{2})?", fullmatch=True))
def test_a_code_of_a_code_is_itself(published):
    assert language_code(language_code(published)) == language_code(published)
