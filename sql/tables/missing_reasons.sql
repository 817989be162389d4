-- grain: one thing that a printed figure needs, and why disent may have no figure of its own for it
-- reads: nothing; the reasons are written here
-- units: status impossible: data or system are not to be had; not_run: nothing but the run is missing
with

reasons (kind, name, status, reason) as (

    values
    ('dataset', 'massive', 'not_run', 'MASSIVE is public: name its languages in [[corpora]]'),
    ('dataset', 'wmt20_qe', 'not_run', 'the WMT20 test sets are public (MLQE): name the pair in [[corpora]]'),
    ('dataset', 'sts2017', 'not_run', 'the STS 2017 tracks are public: name the track in [[corpora]]'),
    ('dataset', 'tatoeba', 'not_run', 'the Tatoeba test sets are public: name the languages in [[corpora]]'),
    ('dataset', 'opus', 'not_run', 'the split of OPUS is not published: disent holds out bitext of its own'),
    ('dataset', 'xsid', 'not_run', 'xSID is public: name its languages in [[corpora]]'),
    ('dataset', 'masakhaner', 'not_run', 'MasakhaNER is public: name its languages in [[corpora]]'),
    ('dataset', 'atis', 'impossible', 'ATIS is under a licence of the LDC'),
    ('dataset', 'multiatis', 'impossible', 'MultiATIS++ is under a licence of the LDC'),
    ('dataset', 'hotelqa', 'impossible', 'HotelQA is private; MASSIVE intents can stand beside it'),
    ('dataset', 'quora', 'impossible', 'the selection and translations of Quora are not published'),
    ('encoder', 'mbert', 'not_run', 'mBERT is public: name it in [[encoders]]'),
    ('encoder', 'xlm_roberta_base', 'not_run', 'XLM-R base is public: name it in [[encoders]]'),
    ('encoder', 'xlm_roberta_large', 'not_run', 'XLM-R large is public: name it in [[encoders]]'),
    ('encoder', 'labse', 'not_run', 'LaBSE is public: name it in [[encoders]]'),
    ('encoder', 'infoxlm', 'not_run', 'InfoXLM is public: name it in [[encoders]]'),
    ('encoder', 'msimcse', 'not_run', 'mSimCSE is public: name it in [[encoders]]'),
    ('encoder', 'multilingual_mpnet', 'not_run', 'mpnet (multilingual) is public: name it in [[encoders]]'),
    ('encoder', 'multilingual_sbert', 'not_run', 'SBERT (multilingual) is public: name it in [[encoders]]'),
    ('encoder', 'laser', 'not_run', 'LASER encodes with tools of its own: import its vectors (kind vectors)'),
    ('task', 'code_switched_retrieval', 'not_run', 'the switched texts are not published: disent makes them'),
    ('method', 'prism', 'impossible', 'Prism is a system of others: published figures only'),
    ('method', 'd_tp', 'impossible', 'D-TP is a system of others: published figures only'),
    ('method', 'd_lex_sim', 'impossible', 'D-Lex-Sim is a system of others: published figures only'),
    (
        'method', 'predictor_estimator', 'impossible',
        'Predictor-Estimator is a system of others: published figures only'
    ),
    ('method', 'bgt', 'impossible', 'BGT is a system of others: published figures only'),
    ('method', 'muse', 'impossible', 'MUSE is a system of others: published figures only'),
    ('method', 'criss', 'impossible', 'CRISS is a system of others: published figures only'),
    ('method', 'dueam', 'impossible', 'DuEAM is a system of others: published figures only'),
    ('method', 'mt_sent2vec', 'impossible', 'the machine translations for sent2vec are not published'),
    ('metric', 'silhouette', 'impossible', 'the classes and spans of the silhouette are not published'),
    ('figure', 'oracle Fig. 6', 'impossible', 'drawn without figures'),
    ('figure', 'twosl Fig. 4-6', 'impossible', 'drawn without figures')

)

select
    kind,
    name,
    status,
    reason
from reasons
