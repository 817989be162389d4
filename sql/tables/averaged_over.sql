-- grain: one named set that papers average over; for one encoder where that decides
-- reads: nothing; the sets are facts of the papers
-- units: members are languages (English on the other side) or evaluated_on, by comma
with

sets (set_name, encoder, members_are, members) as (

    values
    ('Tatoeba-14', null, 'languages', 'ar, bg, de, el, es, fr, hi, ru, sw, th, tr, ur, vi, zh'),
    (
        'Tatoeba-36', null, 'languages',
        'af, ar, bg, bn, de, el, es, et, eu, fa, fi, fr, he, hi, hu, id, it, ja, '
        || 'jv, ka, kk, ko, ml, mr, nl, pt, ru, sw, ta, te, th, tl, tr, ur, vi, zh'
    ),
    (
        '10 sets', null, 'evaluated_on',
        'ar, en, es, en-ar, en-de, en-tr, en-es, en-fr, en-it, en-nl'
    ),
    (
        'all directions', null, 'evaluated_on',
        'en, en-de, en-es, en-fr, en-ja, en-zh, de-en, es-en, fr-en, ja-en, zh-en'
    ),
    -- what an encoder has seen: LASER Aymara, none Guarani
    ('seen languages', 'laser', 'languages', 'ar, ay, de, es, fr, it, ja, nl, pt, ro, zh'),
    ('seen languages', 'infoxlm', 'languages', 'ar, de, es, fr, it, ja, nl, pt, ro, zh'),
    ('seen languages', 'labse', 'languages', 'ar, de, es, fr, it, ja, nl, pt, ro, zh'),
    ('unseen languages', 'laser', 'languages', 'gn'),
    ('unseen languages', 'infoxlm', 'languages', 'ay, gn'),
    ('unseen languages', 'labse', 'languages', 'ay, gn')

)

select
    set_name,
    encoder,
    members_are,
    members
from sets
