-- What analysts ask, once of the console through its API and once of PostgreSQL over the same rows (differential.rs).
--
-- A statement ends with a semicolon at the end of a line. Results are compared row by row in order when the statement has an
-- ORDER BY of its own at the end, else as sets. In front of a statement may stand
--   -- refused: why       the console refuses it, and says so, rather than answer wrongly; PostgreSQL answers
--   -- differs: why       both answer, and not alike

-- Rows, columns, conditions
SELECT name, price, stock, maker, even FROM products ORDER BY name;
SELECT * FROM products ORDER BY result_id LIMIT 5;
SELECT p.* FROM products p WHERE p.price > 50 ORDER BY p.name;
SELECT DISTINCT maker FROM products;
SELECT DISTINCT maker, even FROM products ORDER BY maker, even;
SELECT name FROM products WHERE stock IS NULL ORDER BY name;
SELECT name FROM products WHERE stock IS NOT NULL AND stock > 2 ORDER BY name DESC;
SELECT name FROM products WHERE NOT (stock > 2) ORDER BY name;
SELECT name FROM products WHERE stock > 2 OR price < 20 ORDER BY name;
SELECT name FROM products WHERE maker IN ('Stanley', 'Veritas') ORDER BY name;
SELECT name FROM products WHERE maker NOT IN ('Stanley', 'Veritas') ORDER BY name;
SELECT name FROM products WHERE stock NOT IN (1, 2) ORDER BY name;
SELECT name FROM products WHERE stock NOT IN (1, NULL) ORDER BY name;
SELECT name FROM products WHERE NOT (5 IN (CASE WHEN even THEN 6 END, 7, 8)) ORDER BY name;
SELECT DISTINCT url_id, 1 AS one FROM url_tags ORDER BY 1 DESC LIMIT 3;
SELECT name FROM products WHERE price BETWEEN 20 AND 50.5 ORDER BY price, name;
SELECT name FROM products WHERE price NOT BETWEEN 20 AND 50.5 ORDER BY price, name;
-- refused: the parser does not know SYMMETRIC; write the smaller bound first
SELECT name FROM products WHERE price BETWEEN SYMMETRIC 50 AND 20 ORDER BY name;
SELECT name FROM products WHERE even ORDER BY name;
SELECT name FROM products WHERE even IS NOT TRUE ORDER BY name;
SELECT name FROM products WHERE even = false ORDER BY name;
SELECT name FROM products WHERE stock IS DISTINCT FROM 2 ORDER BY name;
SELECT name FROM products WHERE stock IS NOT DISTINCT FROM NULL ORDER BY name;
SELECT name FROM products ORDER BY stock, name;
SELECT name FROM products ORDER BY stock DESC, name;
SELECT name FROM products ORDER BY stock NULLS FIRST, name;
SELECT name FROM products ORDER BY stock DESC NULLS LAST, name LIMIT 7 OFFSET 3;
SELECT name FROM products ORDER BY 1 FETCH FIRST 3 ROWS ONLY;
SELECT name FROM products ORDER BY name OFFSET 5 ROWS FETCH NEXT 2 ROWS ONLY;
SELECT name AS n, price AS p FROM products ORDER BY p DESC, n LIMIT 3;
SELECT upper(name) AS name FROM products ORDER BY name LIMIT 3;
SELECT name FROM products ORDER BY price * -1, name LIMIT 3;
SELECT name FROM products ORDER BY length(maker), name LIMIT 6;
SELECT 'a' AS kind, name FROM products WHERE price < 10 UNION ALL SELECT 'b', name FROM products WHERE price > 90 ORDER BY 1, 2;
SELECT (price > 50) AS dear, name FROM products ORDER BY dear, name LIMIT 5;
SELECT name FROM products WHERE (maker, even) = ('Stanley', true) ORDER BY name;
SELECT name FROM products WHERE (maker, even) IN (('Stanley', true), ('Veritas', false)) ORDER BY name;
SELECT name FROM products WHERE (maker, price) IN (SELECT maker, max(price) FROM products GROUP BY maker) ORDER BY name;
SELECT name FROM products WHERE price > ALL (SELECT price FROM products WHERE maker = 'Stanley') ORDER BY name;
SELECT name FROM products WHERE price > ANY (SELECT price FROM products WHERE maker = 'Stanley') ORDER BY name;
SELECT name FROM products WHERE stock = ANY (ARRAY[1, 3]) ORDER BY name;

-- Texts
SELECT name FROM products WHERE name LIKE 'Plane No. 1%' ORDER BY name;
SELECT name FROM products WHERE name ILIKE 'PLANE no. _' ORDER BY name;
SELECT name FROM products WHERE name NOT LIKE '%1%' ORDER BY name;
SELECT name FROM products WHERE maker LIKE 'Record''s' ORDER BY name;
SELECT name FROM products WHERE name LIKE '%\_%' ORDER BY name;
SELECT name FROM products WHERE name LIKE '%!.%' ESCAPE '!' ORDER BY name;
SELECT name FROM products WHERE name ~ 'No\. [0-9]$' ORDER BY name;
SELECT name FROM products WHERE name ~* 'PLANE' AND name !~ '1' ORDER BY name;
SELECT name FROM products WHERE name !~* 'plane no. 1' ORDER BY name;
SELECT name FROM products WHERE starts_with(name, 'Plane No. 2') ORDER BY name;
SELECT upper(maker), lower(maker), initcap(lower(maker)), length(maker), char_length(maker) FROM products ORDER BY maker LIMIT 3;
SELECT left(maker, 3), right(maker, 3), substr(maker, 2, 3), substring(maker, 2), substring(maker FROM 2 FOR 2) FROM products ORDER BY maker, name;
SELECT left(maker, -2), right(maker, -2) FROM products ORDER BY maker, name;
SELECT position('e' IN maker), strpos(maker, 'r'), strpos(maker, 'zz') FROM products ORDER BY name;
SELECT replace(name, 'Plane', 'Saw'), translate(maker, 'aei', 'AEI'), reverse(maker) FROM products ORDER BY name LIMIT 4;
SELECT trim(both 'P' from name), ltrim(name, 'Pla'), rtrim(name, '0123'), btrim('  x  ') FROM products ORDER BY name LIMIT 4;
SELECT lpad(maker, 10, '.'), rpad(maker, 10, '-'), lpad(maker, 3), repeat('ab', 3) FROM products ORDER BY name LIMIT 3;
SELECT split_part(url, '/', 4), split_part(url, '/', -1), split_part(url, '/', 99) FROM products ORDER BY url;
SELECT concat(maker, ' ', stock), concat_ws('/', maker, stock, even), maker || '!' FROM products ORDER BY name;
SELECT maker || NULL, concat(maker, NULL) FROM products ORDER BY name LIMIT 2;
SELECT regexp_replace(url, '^https?://([^/]+).*$', '\1') FROM products ORDER BY url LIMIT 2;
SELECT regexp_replace(name, '[0-9]', '#', 'g') FROM products ORDER BY name;
SELECT regexp_match(name, 'No\. ([0-9]+)') FROM products ORDER BY name;
SELECT (regexp_match(name, 'No\. ([0-9]+)'))[1]::int AS number FROM products ORDER BY number;
SELECT substring(name FROM 'No\. ([0-9]+)') FROM products ORDER BY name;
SELECT ascii(maker), chr(65), md5(maker) FROM products ORDER BY name LIMIT 3;
SELECT to_hex(255), bit_length('ab'), octet_length('é') ;
SELECT overlay('abcdef' PLACING 'xy' FROM 2 FOR 3);
SELECT string_to_array('a,b,c', ','), array_to_string(ARRAY['a', 'b'], '-');
SELECT starts_with('abc', 'ab'), 'abc' LIKE 'a%', ascii('A'), chr(65);
SELECT 'abc' SIMILAR TO 'a(b|c)+';
SELECT quote_literal('it''s');
SELECT format('%s costs %s', name, price) FROM products ORDER BY name LIMIT 2;
SELECT 'it''s' AS a, E'tab\tend' AS b, $$dollar 'quoted'$$ AS c, U&'\0061' AS d;

-- Numbers
SELECT 7 / 2, -7 / 2, 7 % 3, -7 % 3, 7.0 / 2, 1 / 3.0;
SELECT 0.1 + 0.2, 0.1 + 0.2 = 0.3, 1.10 * 3, 10 / 4.0;
SELECT round(2.5), round(-2.5), round(3.5), round(2.567, 2), round(1234.5, -2);
SELECT round(price), round(price::numeric, 1), trunc(price), ceil(price), floor(price) FROM products ORDER BY name;
SELECT round(2.5::float8), round(3.5::float8), round(0.5::float8);
SELECT abs(-5), abs(-5.5), sign(-3.2), mod(10, 3), power(2, 10), sqrt(16), cbrt(27), exp(0), ln(1), log(100);
SELECT greatest(1, NULL, 3), least(1, NULL, 3), coalesce(NULL, 2), nullif(2, 2);
SELECT price::int, price::bigint, price::numeric, price::text, price::numeric(10, 2) FROM products ORDER BY name;
SELECT '42'::int + 1, '1.5'::float8, '1e3'::float8, ' 7 '::int, 't'::boolean, 'no'::boolean;
SELECT 2.5::int, 3.5::int, -2.5::int, 2.5::float8::int, 3.5::float8::int;
SELECT CAST(price AS integer) AS whole, CAST(stock AS text) FROM products ORDER BY name;
SELECT 9007199254740993, 9223372036854775807, -9223372036854775808;
SELECT 12345678901234567890.123 + 1;
SELECT stock / 2, stock * 1.5, stock - 1, -stock, +stock FROM products ORDER BY name;
SELECT schema_version / 2, schema_version % 2, schema_version * 1.5 FROM products ORDER BY name LIMIT 2;
SELECT 5 & 3, 5 | 3, 5 # 3, 1 << 4, 256 >> 2;
SELECT pi(), degrees(pi()), radians(180), sin(0), cos(0), atan2(1, 1);
SELECT gcd(12, 18), lcm(4, 6), factorial(5);
SELECT width_bucket(price, 0, 100, 10) FROM products ORDER BY name;
SELECT 'NaN'::float8 > 1, 'Infinity'::float8, '-Infinity'::float8;
SELECT avg(1.0 * n) FROM (VALUES (1), (2), (4)) AS v(n);

-- Sums, groups
SELECT count(*), count(stock), count(DISTINCT maker), sum(stock), avg(price), min(price), max(price) FROM products;
SELECT maker, count(*), sum(stock), avg(price), min(name), max(name) FROM products GROUP BY maker ORDER BY maker;
SELECT maker, even, count(*) AS n FROM products GROUP BY maker, even ORDER BY n DESC, maker, even;
SELECT maker, count(*) FROM products GROUP BY 1 HAVING count(*) > 3 ORDER BY 2 DESC, 1;
SELECT maker, avg(stock) FROM products GROUP BY maker HAVING avg(stock) IS NOT NULL ORDER BY avg(stock), maker;
SELECT count(*) FILTER (WHERE even), count(*) FILTER (WHERE stock IS NULL) FROM products;
SELECT maker, sum(price) FILTER (WHERE even) AS even_sum, sum(CASE WHEN even THEN 0 ELSE price END) FROM products GROUP BY maker ORDER BY maker;
SELECT stock, count(*) FROM products GROUP BY stock ORDER BY stock;
SELECT sum(stock), avg(stock), min(stock), count(stock), count(*) FROM products WHERE false;
SELECT maker, sum(stock) FROM products WHERE false GROUP BY maker;
SELECT count(DISTINCT stock), sum(DISTINCT stock), avg(DISTINCT stock) FROM products;
SELECT bool_and(even), bool_or(even), every(price > 0) FROM products;
SELECT string_agg(name, ', ' ORDER BY name) FROM products;
SELECT maker, string_agg(DISTINCT stock::int::text, ',' ORDER BY stock::int::text) FROM products GROUP BY maker ORDER BY maker;
SELECT array_agg(name ORDER BY name DESC) FROM products WHERE even;
SELECT array_agg(stock ORDER BY stock, name) FROM products;
SELECT array_agg(DISTINCT maker ORDER BY maker) FROM products;
SELECT stddev(price), stddev_samp(price), stddev_pop(price), variance(price), var_samp(price), var_pop(price) FROM products;
SELECT corr(price, stock), covar_pop(price, stock), covar_samp(price, stock), regr_slope(price, stock), regr_intercept(price, stock), regr_r2(price, stock), regr_count(price, stock) FROM products;
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY price), percentile_disc(0.5) WITHIN GROUP (ORDER BY price) FROM products;
SELECT maker, percentile_cont(0.9) WITHIN GROUP (ORDER BY price) AS p90 FROM products GROUP BY maker ORDER BY maker;
SELECT percentile_disc(0.25) WITHIN GROUP (ORDER BY name DESC) FROM products;
SELECT mode() WITHIN GROUP (ORDER BY maker) FROM products;
SELECT bit_and(schema_version), bit_or(schema_version), bit_xor(schema_version) FROM products;
SELECT maker, even, count(*) FROM products GROUP BY ROLLUP (maker, even) ORDER BY maker NULLS LAST, even NULLS LAST;
SELECT maker, even, count(*) FROM products GROUP BY CUBE (maker, even) ORDER BY maker NULLS LAST, even NULLS LAST;
SELECT maker, even, count(*), grouping(maker) FROM products GROUP BY GROUPING SETS ((maker), (even), ()) ORDER BY maker NULLS LAST, even NULLS LAST;
SELECT max(n) FROM (SELECT maker, count(*) AS n FROM products GROUP BY maker) s;
SELECT maker, round(100.0 * count(*) / sum(count(*)) OVER (), 2) AS share FROM products GROUP BY maker ORDER BY maker;
SELECT width, count(*) FROM (SELECT floor(price / 20) * 20 AS width FROM products) s GROUP BY width ORDER BY width;
SELECT CASE WHEN price < 30 THEN 'cheap' WHEN price < 70 THEN 'fair' ELSE 'dear' END AS class, count(*) FROM products GROUP BY class ORDER BY class;
SELECT CASE maker WHEN 'Stanley' THEN 1 ELSE 2 END, count(*) FROM products GROUP BY 1 ORDER BY 1;
SELECT count(*) > 5 FROM products;
SELECT sum(price)::numeric(12, 2) FROM products;
SELECT maker FROM products GROUP BY maker ORDER BY max(price) DESC, maker;
SELECT json_agg(maker ORDER BY name) FROM products WHERE price < 30;

-- Windows
SELECT name, row_number() OVER (ORDER BY price, name) FROM products ORDER BY name;
SELECT name, rank() OVER (ORDER BY maker), dense_rank() OVER (ORDER BY maker) FROM products ORDER BY name;
SELECT name, rank() OVER (PARTITION BY maker ORDER BY price DESC, name) AS r FROM products ORDER BY maker, r;
SELECT name, price - lag(price) OVER (ORDER BY name) AS step, lead(price, 2) OVER (ORDER BY name), lag(price, 1, 0) OVER (ORDER BY name) FROM products ORDER BY name;
SELECT name, sum(price) OVER (PARTITION BY maker ORDER BY name) FROM products ORDER BY maker, name;
SELECT name, sum(price) OVER (PARTITION BY maker) FROM products ORDER BY name;
SELECT name, avg(price) OVER (ORDER BY name ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM products ORDER BY name;
SELECT name, count(*) OVER (ORDER BY price RANGE BETWEEN 10 PRECEDING AND 10 FOLLOWING) FROM products ORDER BY name;
SELECT name, first_value(name) OVER w, last_value(name) OVER w, nth_value(name, 2) OVER w FROM products WINDOW w AS (PARTITION BY maker ORDER BY price, name ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) ORDER BY name;
SELECT name, ntile(4) OVER (ORDER BY name), percent_rank() OVER (ORDER BY name), cume_dist() OVER (ORDER BY name) FROM products ORDER BY name;
SELECT * FROM (SELECT name, maker, row_number() OVER (PARTITION BY maker ORDER BY price DESC, name) AS n FROM products) s WHERE n <= 2 ORDER BY maker, n;
SELECT DISTINCT ON (maker) maker, name, price FROM products ORDER BY maker, price DESC, name;
SELECT name, max(price) OVER (ORDER BY name GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM products ORDER BY name;
SELECT name, sum(stock) OVER (ORDER BY name ROWS UNBOUNDED PRECEDING) FROM products ORDER BY name;
SELECT name, count(*) FILTER (WHERE even) OVER (ORDER BY name) FROM products ORDER BY name;

-- What one side of a join determines is no matter of the other's
SELECT q.m, length(r.url) % 3 AS l, count(*) FROM readings r CROSS JOIN (SELECT maker AS m FROM products GROUP BY 1) q GROUP BY 1, 2 ORDER BY 1, 2 DESC;
SELECT q.m, length(r.url) % 3 AS l, count(*) FROM readings r CROSS JOIN (SELECT maker AS m FROM products GROUP BY 1) q GROUP BY 1, 2 ORDER BY 1, 2 DESC LIMIT 2;
SELECT count(*) FROM (SELECT m FROM (SELECT q.m, length(r.url) AS l FROM readings r CROSS JOIN (SELECT DISTINCT maker AS m FROM products) q GROUP BY 1, 2) t GROUP BY m, l) z;
SELECT DISTINCT m FROM (SELECT q.m, length(r.url) AS l FROM readings r CROSS JOIN (SELECT maker AS m FROM products GROUP BY 1) q GROUP BY 1, 2) t ORDER BY m;

-- One row out of one row: what is counted below is not what is counted above
SELECT count(*) FILTER (WHERE n > 100), sum(n) FILTER (WHERE n > 1) FROM (SELECT count(*) AS n FROM urls) t;
SELECT min(4) FROM (SELECT sum(2.5) FROM urls HAVING count(*) > 1) t(c) HAVING sum('1'::float8) FILTER (WHERE true) > 0;
SELECT max(n) FILTER (WHERE n < 0), count(n) FILTER (WHERE n < 0) FROM (SELECT count(*) AS n FROM urls UNION ALL SELECT count(*) FROM readings) t;

-- Joins, subqueries, sets, WITH
SELECT p.name, r.title FROM products p JOIN readings r ON r.result_id = p.result_id ORDER BY p.name;
SELECT p.name, r.http_status FROM products p JOIN readings r USING (result_id) ORDER BY p.name;
SELECT p.name, u.tag FROM products p LEFT JOIN url_tags u ON u.url_id = p.url_id ORDER BY p.name, u.tag;
SELECT count(*) FROM urls u LEFT JOIN products p ON p.url_id = u.id WHERE p.result_id IS NULL;
SELECT count(*) FROM products p RIGHT JOIN urls u ON p.url_id = u.id;
SELECT count(*) FROM products p FULL JOIN urls u ON p.url_id = u.id;
SELECT count(*) FROM products a CROSS JOIN products b;
SELECT count(*) FROM products a, products b WHERE a.maker = b.maker AND a.price < b.price;
SELECT a.name, b.name FROM products a JOIN products b ON a.price = b.price AND a.name < b.name ORDER BY 1, 2;
SELECT a.maker, count(*) FROM products a NATURAL JOIN (SELECT DISTINCT maker FROM products WHERE price > 90) b GROUP BY a.maker ORDER BY 1;
SELECT name FROM products p WHERE EXISTS (SELECT 1 FROM readings r WHERE r.result_id = p.result_id AND r.http_status = 200) ORDER BY name;
SELECT name FROM products p WHERE NOT EXISTS (SELECT 1 FROM url_tags t WHERE t.url_id = p.url_id) ORDER BY name;
SELECT name FROM products WHERE price > (SELECT avg(price) FROM products) ORDER BY name;
SELECT name, price - (SELECT avg(price) FROM products) AS above FROM products ORDER BY name;
SELECT name FROM products p WHERE price = (SELECT max(price) FROM products q WHERE q.maker = p.maker) ORDER BY name;
-- refused: a subquery that is a value may be tied to the row by equality only; join and group instead
SELECT name, (SELECT count(*) FROM products q WHERE q.price < p.price) AS cheaper FROM products p ORDER BY name;
SELECT name, (SELECT q.name FROM products q WHERE q.maker = p.maker ORDER BY q.price, q.name LIMIT 1) AS cheapest FROM products p ORDER BY p.name;
SELECT name FROM products WHERE url_id IN (SELECT url_id FROM url_tags WHERE tag = 'even') ORDER BY name;
SELECT name FROM products WHERE url_id NOT IN (SELECT url_id FROM url_tags WHERE tag = 'even') ORDER BY name;
SELECT m.maker, l.name FROM (SELECT DISTINCT maker FROM products) m CROSS JOIN LATERAL (SELECT name FROM products p WHERE p.maker = m.maker ORDER BY price DESC, name LIMIT 1) l ORDER BY 1;
SELECT maker FROM products WHERE price < 30 UNION SELECT maker FROM products WHERE price > 90;
SELECT maker FROM products WHERE price < 30 INTERSECT SELECT maker FROM products WHERE price > 60;
SELECT name FROM products EXCEPT SELECT name FROM products WHERE even ORDER BY name;
SELECT maker FROM products EXCEPT ALL SELECT maker FROM products WHERE even;
SELECT maker, even FROM products INTERSECT ALL (SELECT maker, even FROM products WHERE price > 20 EXCEPT ALL SELECT maker, even FROM products WHERE price > 60) ORDER BY 1, 2;
SELECT stock AS s FROM products WHERE even EXCEPT ALL SELECT 2 ORDER BY s;
-- refused: how many columns there are is not looked up
SELECT * FROM url_tags EXCEPT ALL SELECT * FROM url_tags;
WITH dear AS (SELECT * FROM products WHERE price > 50) SELECT maker, count(*) FROM dear GROUP BY maker ORDER BY maker;
WITH a AS (SELECT maker, max(price) FROM products GROUP BY maker), b AS (SELECT maker, min(price) FROM products GROUP BY maker) SELECT a.maker, max - min AS spread FROM a JOIN b USING (maker) ORDER BY maker;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10) SELECT i, i * i FROM n ORDER BY i;
WITH RECURSIVE f(a, b) AS (SELECT 0, 1 UNION ALL SELECT b, a + b FROM f WHERE b < 100) SELECT a FROM f ORDER BY a, b;
SELECT * FROM (VALUES (1, 'one'), (2, 'two'), (3, NULL)) AS v(n, word) ORDER BY n;
SELECT v.word, count(p.name) FROM (VALUES ('Stanley'), ('Nobody')) AS v(word) LEFT JOIN products p ON p.maker = v.word GROUP BY v.word ORDER BY 1;
SELECT n FROM unnest(ARRAY[3, 1, 2]) AS t(n) ORDER BY n;
SELECT word, n FROM unnest(ARRAY['a', 'b']) WITH ORDINALITY AS t(word, n) ORDER BY n;
SELECT n FROM generate_series(1, 5) AS t(n) ORDER BY n;
SELECT d FROM generate_series(DATE '2026-01-01', DATE '2026-01-03', INTERVAL '1 day') AS t(d) ORDER BY d;

-- Times
SELECT date_trunc('hour', scraped_at) AS h, count(*) FROM products GROUP BY h ORDER BY h;
SELECT date_trunc('day', scraped_at)::date AS day, avg(price) FROM products GROUP BY 1 ORDER BY 1;
SELECT extract(year FROM scraped_at), extract(month FROM scraped_at), extract(dow FROM scraped_at), extract(isodow FROM scraped_at), extract(doy FROM scraped_at) FROM products ORDER BY name LIMIT 1;
SELECT date_part('hour', scraped_at), date_part('week', scraped_at), date_part('quarter', scraped_at) FROM products ORDER BY name LIMIT 1;
SELECT extract(epoch FROM TIMESTAMP '2026-03-01 12:00:00'), extract(epoch FROM INTERVAL '1 day 2 hours'), extract(second FROM TIMESTAMP '2026-03-01 12:00:01.5');
SELECT TIMESTAMP '2026-01-31 10:00:00' + INTERVAL '1 month', DATE '2026-03-31' - INTERVAL '1 month', TIMESTAMP '2026-03-01 00:00:00' - INTERVAL '1 second';
SELECT DATE '2026-03-01' - DATE '2026-02-01', DATE '2026-03-01' + 7, TIMESTAMP '2026-03-02 06:00:00' - TIMESTAMP '2026-03-01 00:00:00';
SELECT TIMESTAMP '2026-03-02 06:00:00' - TIMESTAMP '2026-01-01 00:00:00' > INTERVAL '1 month', INTERVAL '36 hours' > INTERVAL '1 day', INTERVAL '1 month' = INTERVAL '30 days';
SELECT DATE '2026-02-28' + 1, DATE '2026-01-01' < DATE '2026-01-02', '2026-01-05'::date, CAST('2026-01-05 07:08:09' AS timestamp);
SELECT date_trunc('week', TIMESTAMP '2026-02-18 10:00:00'), date_trunc('quarter', TIMESTAMP '2026-05-18 10:00:00'), date_trunc('year', TIMESTAMP '2026-05-18 10:00:00');
SELECT to_char(TIMESTAMP '2026-03-01 14:05:09', 'YYYY-MM-DD'), to_char(TIMESTAMP '2026-03-01 14:05:09', 'HH24:MI:SS'), to_char(TIMESTAMP '2026-03-01 14:05:09', 'YYYY-MM');
SELECT to_char(scraped_at, 'YYYY-MM-DD HH24:MI') AS minute, count(*) FROM products GROUP BY minute ORDER BY minute;
SELECT to_char(TIMESTAMP '2026-03-01 14:05:09', 'DD.MM.YYYY'), to_char(TIMESTAMP '2026-03-01 02:05:09', 'HH12:MI AM'), to_char(TIMESTAMP '2026-03-01 02:05:09', 'DDD Mon Dy FMMonth FMDay FMDD IYYY-IW');
SELECT to_char(TIMESTAMP '2026-03-01 02:05:09', 'Day'), to_char(TIMESTAMP '2026-05-01', 'DD-MON-YY, Month dy'), to_char(TIMESTAMP '2026-05-01', 'YYYY "Q"Q');
SELECT to_timestamp(0), to_date('2026-03-01', 'YYYY-MM-DD');
SELECT make_date(2026, 3, 1), make_interval(days => 3);
SELECT age(TIMESTAMP '2026-03-01', TIMESTAMP '2025-01-15');
SELECT count(*) FROM products WHERE scraped_at > now() - INTERVAL '1 day';
SELECT count(*) FROM products WHERE scraped_at >= '2020-01-01' AND scraped_at < '2100-01-01 00:00:00';
SELECT count(*) FROM products WHERE scraped_at::date = current_date OR scraped_at::date <> current_date;
SELECT count(*) FROM products WHERE scraped_at BETWEEN '2020-01-01' AND now();
SELECT TIMESTAMP '2026-03-01 12:00:00' AT TIME ZONE 'UTC', TIMESTAMPTZ '2026-03-01 12:00:00+00' AT TIME ZONE 'Europe/Berlin';
SELECT date_bin('15 minutes', TIMESTAMP '2026-03-01 12:34:56', TIMESTAMP '2026-01-01 00:00:00');
SELECT INTERVAL '1 year 2 months 3 days', INTERVAL '90 minutes', INTERVAL '1' DAY, INTERVAL '-1 day';
SELECT 2 * INTERVAL '1 day', INTERVAL '1 day' * 1.5, INTERVAL '1 day' / 2;
SELECT (TIMESTAMP '2026-01-01', TIMESTAMP '2026-02-01') OVERLAPS (TIMESTAMP '2026-01-15', TIMESTAMP '2026-03-01');
SELECT TIME '14:05:09', TIMESTAMP '2026-03-01 14:05:09'::time, extract(hour FROM TIME '14:05:09');
-- refused: there are no infinite times here
SELECT isfinite(DATE '2026-01-01');
SELECT current_timestamp IS NOT NULL, localtimestamp IS NOT NULL, current_date IS NOT NULL, clock_timestamp() IS NOT NULL;

-- JSON and lists
SELECT "values" ->> 'name' AS name, ("values" ->> 'price')::numeric AS price FROM readings ORDER BY 1;
SELECT "values" -> 'price' FROM readings ORDER BY result_id;
SELECT count(*) FROM readings WHERE "values" ->> 'stock' IS NULL;
SELECT "values" ->> 'maker' AS maker, count(*), avg(("values" ->> 'price')::float8) FROM readings GROUP BY "values" ->> 'maker' ORDER BY 1;
SELECT '{"a": {"b": [1, 2, {"c": "d"}]}}'::json -> 'a' -> 'b' -> 2 ->> 'c', '{"a": {"b": [1, 2]}}'::json #>> '{a,b,1}', '[1, 2]'::json -> -1;
SELECT '{"a": {"b": 7}}'::jsonb #> '{a,b}', '{"a": null}'::jsonb ->> 'a', '{"a": 1}'::jsonb ->> 'b';
SELECT json_array_length('[1, 2, 3]'), json_typeof('{"a": 1}'), json_extract_path_text('{"a": {"b": "c"}}', 'a', 'b');
SELECT '{"a": 1}'::jsonb ? 'a', '{"a": 1, "b": 2}'::jsonb @> '{"a": 1}';
SELECT attribute, count(*), count(value_number), sum(value_number) FROM reading_values GROUP BY attribute ORDER BY attribute;
SELECT r.url, v.value_text FROM readings r JOIN reading_values v USING (result_id) WHERE v.attribute = 'maker' ORDER BY 1, 2 LIMIT 5;
SELECT ARRAY[1, 2, 3], (ARRAY['a', 'b'])[2], array_length(ARRAY[1, 2], 1), cardinality(ARRAY[1, 2]), 2 = ANY (ARRAY[1, 2]);
SELECT array_append(ARRAY[1], 2), array_cat(ARRAY[1], ARRAY[2]), array_position(ARRAY['a', 'b'], 'b'), array_remove(ARRAY[1, 2, 1], 1);
SELECT ARRAY[1, 2] || ARRAY[3], ARRAY[1, 2] @> ARRAY[1], ARRAY[1, 2] && ARRAY[2, 3], (ARRAY[1, 2, 3])[2:3];

-- The box's own tables
SELECT domain, count(*) FROM urls GROUP BY domain ORDER BY count(*) DESC, domain;
SELECT tag, count(*) FROM url_tags GROUP BY tag ORDER BY tag;
SELECT status, count(*), sum(credits_charged) FROM jobs GROUP BY status ORDER BY status;
SELECT j.status, count(DISTINCT j.url_id), avg(extract(epoch FROM j.finished_at - j.started_at)) >= 0 FROM jobs j GROUP BY j.status;
SELECT count(*) FROM jobs WHERE finished_at >= started_at AND started_at >= created_at;
SELECT u.url, count(t.tag) FROM urls u LEFT JOIN url_tags t ON t.url_id = u.id GROUP BY u.url ORDER BY 2 DESC, 1 LIMIT 10;

-- Names of columns
SELECT count(*), max(price), upper(maker), 1 + 1, price::int, CASE WHEN true THEN 1 END, NULL, extract(year FROM now()) > 2000 FROM products GROUP BY maker, price ORDER BY maker, price LIMIT 1;
SELECT Name, "name", NAME AS "Name" FROM products ORDER BY name LIMIT 1;
-- refused: there is no database user
SELECT current_user IS NOT NULL, gen_random_uuid() IS NOT NULL, random() < 1;
SELECT gen_random_uuid() IS NOT NULL, random() < 1;

-- Where the engine alone would be wrong in silence
SELECT name FROM products WHERE price >= ALL (SELECT price FROM products) ORDER BY name;
SELECT name FROM products WHERE price = ANY (SELECT max(price) FROM products GROUP BY maker) ORDER BY name;
SELECT name FROM products WHERE price <> ALL (SELECT price FROM products WHERE even) ORDER BY name;
SELECT name FROM products WHERE stock < ALL (SELECT stock FROM products WHERE stock > 3) ORDER BY name;
SELECT 2 / 3.0, -2 / 3.0, 1.0 / 7, 100.0 / 3 * 3, 1 / 0.003;
SELECT maker, sum(price::numeric) / count(*) AS mean, avg(price::numeric) FROM products GROUP BY maker ORDER BY maker;
SELECT round(avg(price)::numeric, 2), round(1.005, 2), round(-0.5::float8), round(1.5::float8) FROM products;
SELECT -1.5::float8::int, 0.5::float8::int, 1.5::float8::bigint, 2.5::numeric::int, -2.5::numeric::bigint;
SELECT 1e15::float8::text, 1e-5::float8::text, 100000::float8::text, 0.1::float8::text, 1.50::numeric(5, 2)::text, true::text;
-- differs: a numeric without a precision has ten digits behind the point here, as many as it needs in PostgreSQL
SELECT 1.50::numeric::text;
SELECT TIMESTAMP '2026-03-01 12:00:00'::text, TIMESTAMP '2026-03-01 12:00:00.25'::text, DATE '2026-03-01'::text;
SELECT 'x' || 1.5::float8, 'x' || 2::float8, 'x' || 7, 'x' || TIMESTAMP '2026-03-01 12:00:00', concat('x', 2::float8, true, NULL);
SELECT 'abcdef'::varchar(3), 'ab'::varchar(3), CAST('abcdef' AS character varying(2));
SELECT date_part('second', TIMESTAMP '2026-03-01 12:00:01.25'), extract(minute FROM TIMESTAMP '2026-03-01 12:07:01');
SELECT DATE '2026-03-01' + INTERVAL '1 day', INTERVAL '1 hour' + DATE '2026-03-01', DATE '2026-03-01' - INTERVAL '30 minutes';
SELECT date_trunc('day', TIMESTAMP '2026-06-30 23:30:00' AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin');
SELECT TIMESTAMP '2026-06-30 12:00:00' AT TIME ZONE 'America/New_York', timezone('Asia/Tokyo', TIMESTAMPTZ '2026-01-01 00:00:00+00');
SELECT '2026-03-01 12:00:00+02'::timestamptz, TIMESTAMPTZ '2026-03-01 12:00:00Z' = TIMESTAMPTZ '2026-03-01 13:00:00+01';
SELECT INTERVAL '1 month 2 days 03:04:05', INTERVAL '-00:30', TIMESTAMP '2026-03-01 00:00:00' + INTERVAL '1 day 01:30:00.5', '36:00'::interval;
SELECT mod(-7, 3), mod(7.5, 2), -7.5 % 2, 2 ^ 10;
SELECT width_bucket(5.35, 0.024, 10.06, 5), width_bucket(-1, 0, 10, 5), width_bucket(10, 0, 10, 5);
SELECT json_build_object('a', 1, 'b', 'x', 'c', NULL), to_json('it'::text), to_json(1.5::float8);
SELECT json_agg(name ORDER BY name) FROM products WHERE false;
SELECT '{"a": [1, {"b": null}]}'::json #> '{a,1}', '{"a": [1, 2]}'::json -> 'a' ->> -1, '[{"a": 1}]'::jsonb -> 0 -> 'a';
SELECT '{"a": 1}'::jsonb -> 0, '[1]'::jsonb -> 'a', '"text"'::jsonb -> 'a', '{"a": true}'::jsonb ->> 'a';

-- Doubles, lists, ranges
SELECT name FROM products WHERE price BETWEEN 0.5 AND 50 ORDER BY name;
SELECT name FROM products WHERE price IN (1, 20.5, 30.25, 40.75, 7, 8.5) ORDER BY name;
SELECT name FROM products WHERE price NOT IN (1, 20.5, 30.25) AND price > 0.1 + 0.2 ORDER BY name;
SELECT x FROM (VALUES (1.5::float8), ('-0.0'::float8), ('NaN'::float8), (0.1::float8)) v(x) WHERE x IN (0.1, 1, 2, 0.0, 5) ORDER BY x DESC;
SELECT x FROM (VALUES (1.5::float8), ('-0.0'::float8), ('NaN'::float8), (0.1::float8)) v(x) WHERE x NOT IN (0, 5, 6, 7, 8) ORDER BY x;
SELECT x FROM (VALUES (1.5::float8), ('NaN'::float8), (0.1::float8)) v(x) WHERE x IN ('NaN'::float8, 5, 6, 7, 8);
SELECT x IN (1, NULL, 0.1, 3, 4), x NOT IN (1, NULL, 0.1, 3, 4) FROM (VALUES (1.5::float8), (0.1::float8)) v(x) ORDER BY x;
SELECT CASE x WHEN 0.1 THEN 'a' WHEN 1.5 THEN 'b' END FROM (VALUES (1.5::float8), (0.1::float8), ('NaN'::float8)) v(x) ORDER BY x;
SELECT 7::float / 3, count(*)::float / 3, 0.1::float(53), 0.5::float(24) AS narrow FROM products;

SELECT coalesce(price, 0.1), greatest(price, 20.5), least(price, 20.5), nullif(price, 0.5), CASE WHEN even THEN price ELSE 0.0 END FROM products ORDER BY name;
SELECT coalesce(price, 0.1) AS p, count(*) FROM products GROUP BY coalesce(price, 0.1) HAVING coalesce(price, 0.1) > 20.5 ORDER BY p;
SELECT sum(CASE WHEN even THEN price ELSE 0.0 END) / 3, avg(coalesce(stock, 0.5)) FROM products;
SELECT count(*) FROM products WHERE scraped_at::time BETWEEN '00:00' AND '23:59:59.999';

-- Joins that make one column of two
SELECT x, y, z FROM (VALUES (1, 2)) a(x, y) RIGHT JOIN (VALUES (1, 5), (2, 3)) b(x, z) USING (x) ORDER BY x;
SELECT x, y, z FROM (VALUES (1, 2), (4, 4)) a(x, y) FULL JOIN (VALUES (1, 5), (2, 3)) b(x, z) USING (x) ORDER BY x;
SELECT x, count(*) FROM (VALUES (1, 2), (4, 4)) a(x, y) FULL OUTER JOIN (VALUES (1, 5), (2, 3)) b(x, z) USING (x) WHERE x < 4 GROUP BY x ORDER BY x;
SELECT regexp_split_to_table('the quick brown', '\s*') AS part;
SELECT regexp_split_to_table('abc', '') AS part;
SELECT (INTERVAL '49 months' / 49)::text AS a, (INTERVAL '49 days' / 49)::text AS b, (INTERVAL '1 day' / 3)::text AS c;
SELECT x FROM (VALUES (1, 2)) a(x, y) RIGHT JOIN (VALUES (1, 5), (2, 3)) b(x, z) USING (x) UNION ALL SELECT 9 ORDER BY 1;
SELECT x FROM (VALUES (1, 2)) a(x, y) FULL JOIN (VALUES (1, 5), (2, 3)) b(x, z) USING (x) EXCEPT SELECT 1 UNION SELECT x FROM (VALUES (7, 2)) a(x, y) RIGHT JOIN (VALUES (8, 3)) b(x, z) USING (x) ORDER BY 1;
SELECT DISTINCT ON (x) x, z FROM (VALUES (1, 2)) a(x, y) RIGHT JOIN (VALUES (2, 5), (3, 3)) b(x, z) USING (x) ORDER BY x, z;
-- refused: the first row of none is NULL, and greater than all of no rows is true
SELECT name FROM products p WHERE p.price > ALL (SELECT q.price FROM products q WHERE q.maker = p.maker AND q.price < 0 ORDER BY q.name LIMIT 1) ORDER BY name;
-- refused: what a merged column means is not looked up in parentheses
SELECT x FROM ((VALUES (1, 2)) a(x, y) FULL JOIN (VALUES (2, 3)) b(x, z) USING (x)) ORDER BY x;
-- refused: PostgreSQL orders by the column that comes out, the rewritten form would by the table's
SELECT p.name, (SELECT -q.price AS price FROM products q WHERE q.maker = p.maker ORDER BY price LIMIT 1) AS least FROM products p ORDER BY p.name;
SELECT count(*) FROM products p RIGHT JOIN urls USING (url) WHERE url LIKE '%plane/1%';
-- refused: the merged column of a FULL JOIN is not told apart with *; write ON and coalesce
SELECT * FROM (VALUES (1, 2)) a(x, y) FULL JOIN (VALUES (2, 3)) b(x, z) USING (x) ORDER BY 1;
SELECT name, (SELECT t.tag FROM url_tags t WHERE t.url_id = p.url_id ORDER BY t.tag DESC LIMIT 1) AS tag FROM products p ORDER BY name;

-- Functions that give rows
SELECT generate_series(1, 3) AS n;
SELECT n * 2 AS double FROM (SELECT generate_series(1, 5, 2) AS n) s ORDER BY n;
WITH days AS (SELECT generate_series('2026-01-01'::date, '2026-01-03'::date, '1 day'::interval)::date AS d) SELECT d FROM days ORDER BY d;
SELECT d::date AS day, count(p.name) FROM generate_series('2026-01-01'::date, '2026-01-03'::date, '1 day') AS d LEFT JOIN products p ON p.scraped_at::date = d::date GROUP BY 1 ORDER BY 1;
SELECT g FROM generate_series(timestamp '2026-01-01 00:00', timestamp '2026-01-01 06:00', interval '2 hours') g ORDER BY g;
SELECT jsonb_object_keys("values"::jsonb) AS k, count(*) FROM readings GROUP BY 1 ORDER BY 1;
SELECT e FROM jsonb_array_elements_text('["a", "b"]'::jsonb) AS t(e) ORDER BY e;
SELECT json_array_elements('[1, {"a": 2}]'::json);
SELECT part FROM regexp_split_to_table('a1b22c', '[0-9]+') AS part ORDER BY part;
SELECT regexp_split_to_array('a, b,c', ',\s*'), array_length(regexp_split_to_array(url, '/'), 1) FROM products ORDER BY name LIMIT 2;

-- Times as people write them
SELECT timestamp '2026-01-02 03:04', '2026-1-2'::date, '20260102'::date, '2026/01/02 03:04:05.5'::timestamp, '03:04'::time;
SELECT 'today'::date = current_date, 'yesterday'::date < current_date, 'epoch'::timestamp, 'now'::timestamp IS NOT NULL;
SELECT count(*) FROM products WHERE scraped_at > '2020-02-01 10:00' AND scraped_at < '2100-1-1';
SELECT extract(hour FROM b - a), extract(minute FROM b - a), extract(second FROM b - a), date_part('day', b - a), extract(epoch FROM b - a) / 3600 FROM (VALUES (timestamp '2026-01-01 00:00', timestamp '2026-04-10 23:52:48.5')) v(a, b);
SELECT (b - a)::text, 'after ' || (b - a), interval '1 day 2 hours'::text FROM (VALUES (timestamp '2026-01-01 00:00', timestamp '2026-04-10 23:52:48')) v(a, b);
SELECT interval '1 month' * 1.5, 3 * interval '90 minutes', interval '1 day' / 4, n * interval '1 day' FROM generate_series(1, 2) n ORDER BY n;
SELECT age(timestamp '2026-03-01', timestamp '2025-01-15'), age(timestamp '2025-01-15', timestamp '2026-03-01 12:30'), age(date '2024-02-29', date '2023-03-31');
SELECT now() - make_interval(days => 7) < now(), make_interval(hours => 2, mins => 30), age(now()) IS NOT NULL;
SELECT date_trunc('day', timestamptz '2026-01-01 23:30:00+00', 'Europe/Berlin');

-- Numbers that would be cut, names that are others
SELECT maker, count(*) * 100 / sum(count(*)) OVER () AS share FROM products GROUP BY maker ORDER BY maker;
SELECT sum(schema_version) / 7, sum(schema_version) / count(*), sum(CASE WHEN even THEN 1 ELSE 0 END) / 7, coalesce(sum(schema_version), 0) / 7 FROM products;
SELECT ceiling(2.1), div(7, 2), div(-7, 2), regexp_substr('banana', 'n.');
SELECT percentile_cont(ARRAY[0.25, 0.5, 0.75]) WITHIN GROUP (ORDER BY price) FROM products;
SELECT name FROM products WHERE url SIMILAR TO '%plane/(1|2)_' ORDER BY name;
SELECT name FROM products WHERE maker NOT SIMILAR TO 'S%|V%' ORDER BY name;
SELECT 'a' || true, concat('a', true), 'a' || false;

-- JSON in JSON
SELECT json_agg(json_build_object('maker', maker, 'price', price) ORDER BY name) FROM products;
SELECT json_build_object('a', json_build_array(1, 'x', NULL), 'b', '{"c": 1}'::json, 'd', '{"e": [1]}'::jsonb -> 'e', 'f', 1.50);
SELECT to_jsonb(1.5), to_json(9007199254740993), to_json(ARRAY[1, 2]), array_to_json(ARRAY['a', 'b']), to_json('{"a": 1}'::json);
SELECT json_object_agg(maker, n) FROM (SELECT maker, count(*) AS n FROM products GROUP BY maker ORDER BY maker) s;
SELECT jsonb_build_object('a', 1) || jsonb_build_object('b', 2), '[1]'::jsonb || '[2]'::jsonb, jsonb_strip_nulls('{"a": null, "b": {"c": null}}');
-- differs: dividing a double by zero gives infinity here and an error in PostgreSQL
SELECT 1::float8 / 0;

-- IS DISTINCT FROM beside AND, OR and NOT
SELECT count(*) FROM jobs WHERE NOT (status IS DISTINCT FROM 'failed' AND priority > 2);
SELECT name FROM products WHERE stock IS DISTINCT FROM 2 AND even OR price > 90 ORDER BY name;
SELECT name FROM products WHERE even AND maker IS NOT DISTINCT FROM 'Stanley' OR NOT stock IS DISTINCT FROM 3 AND price < 50 ORDER BY name;
SELECT name FROM products WHERE even IS DISTINCT FROM true AND price > 20 ORDER BY name;
SELECT stock IS DISTINCT FROM 2 AND even AS x, count(*) FROM products GROUP BY 1 ORDER BY 1;

-- Truth in groups
SELECT DISTINCT domain, (url = 'x') IS NOT FALSE FROM urls;
SELECT DISTINCT (stock > 2) IS NOT TRUE FROM products;
SELECT (stock > 2) IS UNKNOWN AS u, count(*) FROM products GROUP BY 1 ORDER BY 1;
SELECT maker IS DISTINCT FROM 'Stanley' AS d, count(*) FROM products GROUP BY 1 ORDER BY 1;
SELECT scraped_at::date IS NOT NULL, maker, count(*) FROM products GROUP BY ROLLUP (maker, scraped_at::date IS NOT NULL) ORDER BY 2, 3, 1;
SELECT maker, stock::text AS s, count(*) FROM products GROUP BY ROLLUP (maker, stock::text) ORDER BY 1, 2, 3;
SELECT maker, price::int > 50 AS d, count(*) FROM products GROUP BY CUBE (maker, price::int > 50) ORDER BY 1, 2, 3;
SELECT maker, stock::int AS s, count(*), grouping(maker) FROM products GROUP BY GROUPING SETS ((maker), (stock::int), ()) ORDER BY 1, 2, 3, 4;

-- DISTINCT ON by number and by name
SELECT DISTINCT ON (maker) maker, name FROM products ORDER BY maker, 2 DESC;
SELECT DISTINCT ON (maker) maker, price AS p, name FROM products ORDER BY maker, p DESC, 3;
SELECT DISTINCT ON (1) maker, name FROM products ORDER BY 1, name;
SELECT DISTINCT ON (lower(maker)) maker, name FROM products ORDER BY lower(maker), name DESC;
SELECT DISTINCT ON (url) url, scraped_at FROM readings ORDER BY url, 2 DESC;

-- EXISTS and IN as values
SELECT EXISTS (SELECT 1 FROM urls WHERE url LIKE '%plane%'), NOT EXISTS (SELECT 1 FROM urls), EXISTS (SELECT 1 FROM urls WHERE url = 'x');
SELECT u.url, EXISTS (SELECT 1 FROM url_tags t WHERE t.url_id = u.id AND t.tag = 'six') AS six FROM urls u ORDER BY 1;
SELECT count(*) FILTER (WHERE EXISTS (SELECT 1 FROM url_tags t WHERE t.url_id = u.id)) FROM urls u;
SELECT sum(CASE WHEN EXISTS (SELECT 1 FROM url_tags t WHERE t.url_id = u.id AND t.tag = 'six') THEN 1 ELSE 0 END) FROM urls u;
SELECT EXISTS (SELECT 1 FROM url_tags t WHERE t.url_id = u.id) AS tagged, count(*) FROM urls u GROUP BY 1 ORDER BY 1;
-- refused: what an order counts for each row has to be selected
SELECT url FROM urls u ORDER BY EXISTS (SELECT 1 FROM url_tags t WHERE t.url_id = u.id AND t.tag = 'six') DESC, url LIMIT 9;
SELECT url, EXISTS (SELECT 1 FROM url_tags t WHERE t.url_id = u.id AND t.tag = 'six') AS six FROM urls u ORDER BY six DESC, url LIMIT 9;
SELECT u.url, ARRAY(SELECT t.tag FROM url_tags t WHERE t.url_id = u.id ORDER BY t.tag) FROM urls u ORDER BY u.url;
SELECT ARRAY(SELECT p.maker AS x FROM products p ORDER BY x DESC, p.name), cardinality(ARRAY(SELECT url FROM urls WHERE false));
SELECT u.url, u.id IN (SELECT url_id FROM url_tags WHERE tag = 'six') AS six, u.id NOT IN (SELECT url_id FROM url_tags) FROM urls u ORDER BY 1;
SELECT 1 IN (SELECT 2 UNION ALL SELECT NULL), 1 NOT IN (SELECT 2), NULL IN (SELECT 1), NULL IN (SELECT 1 WHERE false), 2 IN (SELECT 2 UNION ALL SELECT NULL);
SELECT name, stock IN (SELECT stock FROM products WHERE even) AS b FROM products ORDER BY 1;
SELECT url, id = ANY (SELECT url_id FROM url_tags WHERE tag = 'six') FROM urls ORDER BY 1;
SELECT EXISTS (SELECT 1 FROM urls LIMIT 0), EXISTS (SELECT 1 FROM urls LIMIT 1), EXISTS (SELECT max(url) FROM urls WHERE false), EXISTS (SELECT maker FROM products GROUP BY maker HAVING count(*) > 100);
SELECT maker, sum((SELECT count(*) FROM readings r WHERE r.url = p.url)) FROM products p GROUP BY maker ORDER BY maker;
SELECT name, rank() OVER (ORDER BY (SELECT count(*) FROM url_tags t WHERE t.url_id = p.url_id) DESC, name) FROM products p ORDER BY 1;

-- LATERAL
SELECT u.url, t.tag FROM urls u LEFT JOIN LATERAL (SELECT tag FROM url_tags t WHERE t.url_id = u.id ORDER BY tag LIMIT 1 OFFSET 1) t ON true ORDER BY 1;
SELECT m.maker, x.* FROM (SELECT DISTINCT maker FROM products) m, LATERAL (SELECT p.name, p.price FROM products p WHERE p.maker = m.maker AND p.price > 10 ORDER BY p.price DESC, 1 LIMIT 3) x ORDER BY 1, 3 DESC, 2;
SELECT m.maker, x.name FROM (SELECT maker, avg(price) AS mean FROM products GROUP BY maker) m JOIN LATERAL (SELECT name, price FROM products p WHERE p.maker = m.maker ORDER BY name FETCH FIRST 4 ROWS ONLY) x ON x.price > m.mean ORDER BY 1, 2;
SELECT p.name, x.twice FROM products p, LATERAL (SELECT p.price * 2 AS twice) x WHERE x.twice > 100 ORDER BY 1;
SELECT r.url, e.key, e.value FROM readings r, jsonb_each_text(r."values"::jsonb) AS e ORDER BY 1, 2;
SELECT r.url, e.k, e.v FROM readings r CROSS JOIN LATERAL jsonb_each("values"::jsonb) AS e(k, v) WHERE e.k = 'price' ORDER BY 1;
SELECT key, count(*) FROM readings, jsonb_each("values"::jsonb) GROUP BY key ORDER BY key;
SELECT k, count(DISTINCT r.url) FROM readings r CROSS JOIN LATERAL jsonb_object_keys(r."values"::jsonb) AS k GROUP BY k ORDER BY k;
SELECT t.id, e::int * 2 AS twice FROM (VALUES (1, '[1, 2]'::jsonb), (2, '[]'::jsonb), (3, NULL)) t(id, list), jsonb_array_elements_text(t.list) AS e ORDER BY 1, 2;
SELECT t.id, e.value FROM (VALUES (1, '[1, 2]'::jsonb), (2, '[]'::jsonb), (3, NULL)) t(id, list) LEFT JOIN LATERAL jsonb_array_elements_text(t.list) AS e(value) ON true ORDER BY 1, 2;
SELECT t.id, x.elem, x.n FROM (VALUES (1, '["b", "a"]'::jsonb), (2, '["c"]'::jsonb)) t(id, list), jsonb_array_elements_text(t.list) WITH ORDINALITY AS x(elem, n) ORDER BY 1, 3;
SELECT value FROM (VALUES ('[3, 4]'::jsonb)) t(list), jsonb_array_elements_text(t.list) ORDER BY value;
SELECT p.name, part FROM products p, regexp_split_to_table(p.name, '\s+') AS part ORDER BY 1, 2;
SELECT p.name, part FROM products p, unnest(string_to_array(p.name, ' ')) WITH ORDINALITY AS x(part, n) WHERE n = 3 ORDER BY 1;
SELECT p.name, n FROM products p, generate_series(1, p.stock::int) AS n ORDER BY 1, 2;
SELECT * FROM jsonb_each_text('{"a": 1, "b": null}'::jsonb) AS e(k, v);
SELECT * FROM generate_series(1, 3) WITH ORDINALITY;
SELECT * FROM unnest(ARRAY[1, 2], ARRAY['a', 'b']) AS t(n, s) ORDER BY n;

-- Words, parts of times, patterns of LIKE
SELECT 'x' ~ '\mfoo', 'a foo' ~ '\mfoo', 'foobar' ~ 'foo\M', 'a b' ~ '\yb\y', 'ab' ~ 'a\Yb', 'foo' ~ '[[:<:]]foo[[:>:]]', E'a\n' ~ 'a\Z';
SELECT regexp_replace('the cat sat', '\m[a-z]', 'X', 'g'), regexp_match('foo bar', '\m(b\w+)\M'), substring('foo bar' from '\m(b\w+)');
SELECT extract(century FROM TIMESTAMP '2026-03-01'), extract(millennium FROM DATE '2000-12-31'), extract(decade FROM TIMESTAMP '1999-12-31 23:59:59'), date_part('century', DATE '2001-01-01');
SELECT name FROM products WHERE name LIKE ANY (ARRAY['%1', '%2']) OR maker ILIKE ANY (ARRAY['VER%']) ORDER BY name;
SELECT count(*) FROM urls WHERE id::uuid = id::uuid AND id <> '00000000-0000-0000-0000-000000000000';

-- Digests, format, pictures of numbers
SELECT md5('abc'), md5(name), md5('') FROM products ORDER BY name LIMIT 2;
SELECT encode(sha256('abc'::bytea), 'hex'), encode(sha512(name::bytea), 'hex') FROM products ORDER BY name LIMIT 1;
SELECT format('%s has %s', maker, count(*)), format('%I = %L', 'Col', 'it''s'), format('%-10s|%5s', 'a', 'b'), format('%2$s-%1$s', 1, true), format('%s', NULL), format('%s%%', 1.5) FROM products GROUP BY maker ORDER BY 1;
SELECT quote_literal('it''s'), quote_ident('a b'), quote_ident('plain'), quote_nullable(NULL), quote_literal(1.5);
SELECT name, to_char(price, 'FM999,990.00'), to_char(price, '9990.9'), to_char(stock, '0000'), to_char(price::numeric, 'S999D9'), to_char(-price, '999.9PR') FROM products ORDER BY name;
SELECT to_char(count(*), '999G999'), to_char(0.1234 * 100, 'FM990.0') || '%', to_char(1234567, 'FM9,999,999'), to_char(-5, '9MI'), to_char(21, 'FM99th'), to_char(12345, '999') FROM products;
SELECT j.id = v.job_id, count(*) FROM reading_values v JOIN jobs j ON j.id = v.job_id GROUP BY 1;
SELECT count(external_id), count(*) > 0 FROM jobs;
SELECT count(workflow_id), count(*) FROM urls;

-- What independent hands found to be wrong
SELECT count(*) FROM reading_values l RIGHT JOIN jobs r ON l.url = r.url WHERE l.url IS NULL;
SELECT count(*) FROM jobs l LEFT JOIN reading_values r ON l.url = r.url WHERE r.url IS NULL;
SELECT count(*) FROM urls l RIGHT JOIN jobs r ON l.url = r.url WHERE l.url IS NOT NULL;
SELECT count(*) FROM urls l FULL JOIN jobs r ON l.url = r.url WHERE r.url IS NULL;
SELECT count(*) FROM jobs l FULL JOIN urls r ON l.url = r.url WHERE l.url IS NULL OR r.url LIKE '%/3%';
SELECT l.url IS NULL, count(*) FROM jobs l RIGHT JOIN urls r ON l.url = r.url WHERE r.url > 'a' GROUP BY 1 ORDER BY 1;
SELECT name, sum(price) OVER (w) FROM products WINDOW w AS (PARTITION BY maker ORDER BY name) ORDER BY name;
SELECT name, sum(price) OVER (w ORDER BY name), count(*) OVER w FROM products WINDOW w AS (PARTITION BY maker) ORDER BY name;
SELECT name, sum(price) OVER (v ROWS 1 PRECEDING) FROM products WINDOW w AS (PARTITION BY maker), v AS (w ORDER BY name) ORDER BY name;
SELECT maker FROM products WINDOW w AS (ORDER BY name) ORDER BY rank() OVER (w), name;
SELECT date_trunc('day', t AT TIME ZONE 'America/New_York'), extract(hour FROM t AT TIME ZONE 'America/New_York'), to_char(t AT TIME ZONE 'Asia/Tokyo', 'YYYY-MM-DD HH24:MI'), t AT TIME ZONE 'Asia/Tokyo' < t FROM (VALUES (TIMESTAMP '2026-06-30 23:30:00')) v(t);
SELECT date_trunc('day', scraped_at AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Tokyo') AS day, count(*) FROM products GROUP BY 1 ORDER BY 1;
SELECT t AT TIME ZONE 'Europe/Berlin' FROM (VALUES (TIMESTAMP '2026-03-29 02:30:00'), (TIMESTAMP '2026-10-25 02:30:00'), (TIMESTAMP '2026-10-25 03:00:00')) v(t) ORDER BY t;
SELECT TIMESTAMP '2026-01-15 12:00' AT TIME ZONE '+02:00', TIMESTAMP '2026-01-15 12:00' AT TIME ZONE 'UTC-2', TIMESTAMP '2026-07-15 12:00' AT TIME ZONE 'CET', TIMESTAMP '2026-07-15 12:00' AT TIME ZONE 'europe/berlin', TIMESTAMPTZ '2026-01-15 12:00+00' AT TIME ZONE INTERVAL '2 hours';
SELECT '\x00ff'::bytea, 'abc'::bytea, ('\x' || '0a')::bytea, '\x00ff'::bytea::text, encode('\x00ff'::bytea, 'hex');
SELECT count(*) FROM products WHERE scraped_at < '9999-12-31' AND scraped_at > '0001-01-01' AND scraped_at < DATE '9999-12-31';
SELECT DATE '9999-12-31', TIMESTAMP '9999-12-31 23:59:59', TIMESTAMP '0001-01-01 00:00:00', DATE '9999-12-31' - DATE '0001-01-01', date_trunc('year', TIMESTAMP '2300-05-01 00:00:00');
SELECT extract(epoch FROM TIMESTAMP '9999-12-31 00:00:00' - TIMESTAMP '0001-01-01 00:00:00'), TIMESTAMP '9999-12-31 00:00:00' > now(), greatest(TIMESTAMP '9999-12-31 00:00:00', TIMESTAMP '2026-01-01 00:00:00');
SELECT -2 ^ 2, 2 ^ -1 ^ 2, -2 ^ 3 ^ 2, -(2 ^ 2);
SELECT 1 = ANY (ARRAY[2, NULL]), 1 <> ALL (ARRAY[2, NULL]), 2 = ANY (ARRAY[2, NULL]), 1 < ANY (ARRAY[NULL, 2]), 3 > ALL ('{1,2}'::int[]), 1 = ANY ('{}'::int[]), NULL = ANY (ARRAY[]::int[]);
SELECT E'a\nb' ~ 'a.b', E'a\nb' ~ '^b', E'a\nb' ~ '[^x]b', E'a\n' ~ 'a$', E'a\nb' ~ '(?n)a.b', regexp_match(E'x\ny', 'x(.)y'), regexp_replace(E'a\nb', 'a.b', '-', 'n');
SELECT extract(epoch FROM INTERVAL '1 year'), extract(epoch FROM INTERVAL '1 year 2 months 3 days 04:05:06.7'), extract(quarter FROM INTERVAL '7 months'), extract(hour FROM INTERVAL '36 hours');
-- refused: the seconds of a day have no counterpart in the engine's patterns
SELECT to_char(TIMESTAMP '2026-03-01 14:05:09', 'SSSS');
SELECT 0.1::real, 1e10::real, 0.1::real::float8, (0.1::real)::text;
SELECT (ARRAY[1, 2])::text, (ARRAY['a b', 'c"d', NULL, '', 'null', 'x'])::text, ARRAY[true, false]::text, ARRAY[1.5, 2.5]::text, (ARRAY[]::int[])::text;
SELECT '{1,2}'::int[], '{a,"b c",NULL}'::text[];
SELECT regexp_replace('abc', 'b', '[\&]'), regexp_replace('abc', '(b)', '<\1\\>'), regexp_replace('abc', 'b', '$1'), 'a&b' ~ '[\&]', regexp_replace('aaa', 'a', 'b', 2, 1);
SELECT array_length(string_to_array('', ','), 1), cardinality(string_to_array('', ',')), array_length(ARRAY[]::int[], 1), array_length(regexp_split_to_array('', ','), 1);
SELECT '{"a": 1.50}'::json ->> 'a', '{"a": 1.50}'::json -> 'a', '{"a": 12345678901234567890.10}'::json ->> 'a', json_typeof('{"a": 1.50}'::json -> 'a');
SELECT ceil(0.3), floor(-0.3), ceil(99.5), floor(99.5), ceil(-0.5), ceil(3);
SELECT count(*) FROM urls WHERE domain IN (SELECT domain FROM urls);
SELECT count(*) FROM urls a WHERE EXISTS (SELECT 1 FROM urls b WHERE b.domain = a.domain AND b.id <> a.id);
SELECT count(*) FROM urls a WHERE NOT EXISTS (SELECT 1 FROM urls b WHERE b.domain = a.domain AND b.url > a.url);

-- Comparisons with a subquery as values, where a NULL leaves them open
SELECT 5 = ANY (SELECT x FROM (VALUES (1), (NULL)) t(x)), 1 <> ALL (SELECT x FROM (VALUES (2), (NULL)) t(x)), (1, 2) IN (SELECT 1, NULL::int), (1, 2) NOT IN (SELECT 1, 3);
SELECT count(*) FILTER (WHERE NOT (u.a = ANY (SELECT x FROM (VALUES (1), (NULL)) t(x)))) FROM (VALUES (1), (2)) u(a);
SELECT bool_or(a = ANY (SELECT x FROM (VALUES (7), (NULL)) t(x))) FROM (VALUES (1), (2)) u(a);
SELECT name, stock <> ALL (SELECT stock FROM products WHERE even), stock = ANY (SELECT stock FROM products WHERE even) FROM products ORDER BY name;
SELECT 3 > ALL (SELECT stock FROM products), 0 < ANY (SELECT stock FROM products), 999 < ANY (SELECT stock FROM products), 9 <> ANY (SELECT stock FROM products), 1 > ALL (SELECT stock FROM products WHERE false);
-- refused: a value of each row, by something else than equality
SELECT price > ANY (SELECT price FROM products WHERE even) FROM products;
-- refused: two values of each row: which of them is NULL is not told by a join
SELECT (maker, price) IN (SELECT maker, max(price) FROM products GROUP BY maker) FROM products;
SELECT name FROM products ORDER BY stock = ANY (SELECT stock FROM products WHERE even), name;
SELECT url FROM jobs ORDER BY url IN (SELECT url FROM readings) DESC, url;
SELECT name FROM products ORDER BY (SELECT max(price) FROM products) - price, name;
SELECT EXISTS (SELECT jsonb_array_elements(j) FROM (VALUES ('[]'::jsonb)) t(j)), EXISTS (SELECT unnest(j) FROM (VALUES (ARRAY[]::int[])) t(j)), EXISTS (SELECT generate_series(1, a) FROM (VALUES (0)) t(a)), EXISTS (SELECT unnest(ARRAY[1]));
SELECT name FROM products WHERE (SELECT max(price) FROM products) NOT IN (SELECT 1.5::float8 UNION ALL SELECT NULL) ORDER BY name;

-- Rows of several members
SELECT 1 AS one WHERE (1, NULL::int) NOT IN ((1, 2));
SELECT (1, NULL) = (1, 2), (1, NULL) = (2, 2), (1, NULL) <> (1, 2), (1, 2) IN ((1, NULL)), (1, 2) NOT IN ((1, NULL), (3, 4)), (1, 2) = (1, 2), ROW(1, 2) <> ROW(1, 3);
SELECT (1, 2) < (1, 3), (1, NULL) < (2, 1), (1, NULL::int) < (1, 3), (2, 1) >= (1, 5), (1, 2) <= (1, 2);
SELECT x, y, (x, y) IS NULL, (x, y) IS NOT NULL FROM (VALUES (1, 2), (NULL, 2), (NULL, NULL)) t(x, y) ORDER BY x, y;
SELECT name FROM products WHERE (maker, stock) NOT IN (('Stanley', 1), ('Veritas', 2)) ORDER BY name;
SELECT name FROM products WHERE (maker, stock) > ('Stanley', 2) ORDER BY name;

-- LATERAL with what is written out
SELECT u.a, x.* FROM (VALUES (1, '[]'::jsonb), (2, '["p"]'::jsonb), (3, NULL)) u(a, j) LEFT JOIN LATERAL (SELECT jsonb_array_elements_text(u.j) AS v, 1 AS one, u.a AS own) x ON true ORDER BY 1;
SELECT u.a, x.* FROM (VALUES (1, '[]'::jsonb), (2, '["p",null]'::jsonb), (3, NULL)) u(a, j) LEFT JOIN LATERAL (SELECT coalesce(elem, 'none') AS c FROM jsonb_array_elements_text(u.j) AS elem) x ON true ORDER BY 1, 2;
SELECT u.a, x.k, x.v, x.c FROM (VALUES (1, '{}'::jsonb), (2, '{"p":1,"q":null}'::jsonb)) u(a, j) LEFT JOIN LATERAL (SELECT key AS k, value AS v, 5 AS c FROM jsonb_each_text(u.j)) x ON true ORDER BY 1, 2;
SELECT u.a, x.n, y.m, y.one FROM (VALUES (1), (2)) u(a) LEFT JOIN LATERAL (SELECT generate_series(1, u.a - 1) AS n) x ON true LEFT JOIN LATERAL (SELECT x.n + 1 AS m, 1 AS one) y ON true ORDER BY 1;
SELECT ARRAY(SELECT unnest(ARRAY[3, 1, 2]) AS x ORDER BY x DESC), ARRAY(SELECT generate_series(1, 3)), ARRAY(SELECT 1), ARRAY(SELECT DISTINCT stock FROM products ORDER BY stock), ARRAY(SELECT name FROM products ORDER BY price DESC LIMIT 2);
SELECT ARRAY(SELECT stock FROM products UNION SELECT 99 ORDER BY 1 DESC), ARRAY(SELECT max(price) FROM products GROUP BY maker ORDER BY maker);
SELECT * FROM unnest(ARRAY[1, 2], ARRAY['a', 'b', 'c']) WITH ORDINALITY AS t(a, b, o) ORDER BY o;
SELECT a FROM unnest(ARRAY[5, 6], ARRAY[7]) WITH ORDINALITY AS t(a) ORDER BY ordinality;

-- JSON's numbers keep their digits, and nothing else comes with them
SELECT * FROM jsonb_each('{"a":1.50,"b":"x","c":[1.0]}'::jsonb);
SELECT json_object_agg(1.50, 'a'), json_build_object(1.50, 'a'), jsonb_object_agg('a', 1.50), json_object_agg(true, 1);
SELECT '[1.50]'::jsonb @> '1.5', '[[2]]'::jsonb @> '2', '{"1.50":1}'::jsonb ? '1.50', jsonb_extract_path('{"a":1.50}', 'a'), '{"a":[1.50]}'::jsonb #> '{a,0}';

-- What counts is whole
SELECT array_length(ARRAY[1, 2, 3], 1) / 2, cardinality(ARRAY[1, 2, 3]) / 2, length('abc') / 2, position('c' in 'abc') / 2, row_number() OVER () / 2, ntile(2) OVER () / 2, array_position(ARRAY[5, 6, 7], 7) / 2, bit_length('abc') / 7;
SELECT coalesce(array_length(ARRAY[1, 2, 3], 1), 0) / 2, greatest(cardinality(ARRAY[1, 2, 3]), 1) / 2, nullif(cardinality(ARRAY[1, 2, 3]), 9) / 2, sum(cardinality(ARRAY[1, 2, 3])) / 2 FROM (VALUES (1)) t(a);
SELECT coalesce(rank() OVER (ORDER BY name), 0) / 2, CASE WHEN even THEN row_number() OVER (ORDER BY name) ELSE 0 END / 2 FROM products ORDER BY name;

-- Spans by their length
SELECT s FROM (VALUES (INTERVAL '1 month'), (INTERVAL '29 days'), (INTERVAL '31 days'), (INTERVAL '800 hours')) t(s) ORDER BY s;
SELECT max(s), min(s), greatest(INTERVAL '1 month', INTERVAL '40 days'), least(INTERVAL '1 month', INTERVAL '40 days'), nullif(INTERVAL '1 day', INTERVAL '24 hours'), CASE INTERVAL '1 day' WHEN INTERVAL '24 hours' THEN 'same' END FROM (VALUES (INTERVAL '1 month'), (INTERVAL '29 days'), (NULL), (INTERVAL '31 days')) t(s);
SELECT s, rank() OVER (ORDER BY s) FROM (VALUES (INTERVAL '1 month'), (INTERVAL '29 days'), (INTERVAL '31 days'), (INTERVAL '720 hours')) t(s) ORDER BY 2, 1;
SELECT a, row_number() OVER (PARTITION BY s ORDER BY a) FROM (VALUES (1, INTERVAL '1 day'), (2, INTERVAL '24 hours'), (3, INTERVAL '31 days')) t(a, s) ORDER BY 1;
SELECT array_agg(a ORDER BY s), count(DISTINCT s) FROM (VALUES (1, INTERVAL '1 month'), (2, INTERVAL '29 days'), (3, INTERVAL '30 days')) t(a, s) WHERE s <> '30 days' OR a = 1;
SELECT a FROM (VALUES (1, INTERVAL '1 day'), (2, INTERVAL '25 hours')) t(a, s) WHERE s IN (SELECT INTERVAL '24 hours') OR s < ANY (ARRAY[INTERVAL '1 hour']);
SELECT s FROM (VALUES (INTERVAL '1 day')) a(s) JOIN (VALUES (INTERVAL '24 hours')) b(s) USING (s);
SELECT DISTINCT ON (a) a, s FROM (VALUES (1, INTERVAL '1 month'), (1, INTERVAL '31 days')) t(a, s) ORDER BY a, s DESC;
-- refused: which of several spans of one length comes out is not told
SELECT DISTINCT s FROM (VALUES (INTERVAL '1 day'), (INTERVAL '24 hours')) t(s);
-- refused: the same
SELECT s, count(*) FROM (VALUES (INTERVAL '1 day'), (INTERVAL '24 hours')) t(s) GROUP BY s;
-- refused: the same
SELECT INTERVAL '1 day' UNION SELECT INTERVAL '24 hours';
-- refused: the same
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY s) FROM (VALUES (INTERVAL '1 day'), (INTERVAL '24 hours')) t(s);

-- Orders of several aggregates
SELECT string_agg(x, ',' ORDER BY x DESC), array_agg(DISTINCT x ORDER BY x) FROM (VALUES ('b'), ('a'), ('c'), ('a')) t(x);
SELECT string_agg(x, ',' ORDER BY x DESC), array_agg(x ORDER BY x), string_agg(DISTINCT x, ',' ORDER BY x), array_agg(DISTINCT x ORDER BY x DESC) FROM (VALUES ('b'), ('a'), ('c'), ('a')) t(x);

-- A zone behind a time that has none
SELECT '2024-01-01T12:00:00+02:00'::timestamp, TIMESTAMP '2024-01-01 12:00:00-05', '2024-01-01T12:00:00+02:00'::timestamptz, '2024-01-01 23:00:00-05'::date, x::timestamp, x::timestamptz, x::date FROM (VALUES ('2024-01-01T12:00:00+02:00')) t(x);

-- Guards
SELECT x FROM (VALUES (0), (2)) t(x) WHERE x <> 0 AND 10 / x > 1;
SELECT x FROM (VALUES (0), (2)) t(x) WHERE 10.5 / x > 1 AND x > 0 AND 10 % x = 0;
SELECT count(*) FILTER (WHERE x <> 0 AND 10 / x > 1) FROM (VALUES (0), (2)) t(x);
SELECT CASE WHEN x <> 0 AND 10 / x > 1 THEN 1 ELSE 0 END, CASE WHEN x <> 0 THEN 10 / x END, x = 0 OR 10 / x > 1, x <> 0 AND 10 / x > 1 FROM (VALUES (0), (2), (NULL)) t(x) ORDER BY x;
SELECT x FROM (VALUES (0), (2), (8)) t(x) WHERE NOT (x = 0 OR 10 / x > 1);
SELECT maker, count(*) FROM products GROUP BY maker HAVING sum(stock) > 0 AND 10 / sum(stock) >= 0 ORDER BY maker;
SELECT x FROM (SELECT x FROM (VALUES (0), (2)) t(x) WHERE x <> 0) s WHERE 10 / x > 1;
SELECT a.x FROM (VALUES (0), (2)) a(x) JOIN (VALUES (0), (2)) b(y) ON b.y <> 0 AND a.x / b.y > 0;
SELECT x FROM (VALUES ('1'), ('b'), ('7')) t(x) WHERE x ~ '^[0-9]+$' AND x::int > 5;

-- Numbers beyond all decimals
SELECT name FROM products WHERE price > 1e300 OR price < 1e-300 OR price = 20.5 ORDER BY name;

-- What random statements found (tests/it/sql/random).
SELECT count(*) FROM readings HAVING 1 = 2;
SELECT n + 1 FROM (SELECT count(*) AS n FROM readings) AS q WHERE 'a' = 'b';
SELECT tag, count(*) FROM url_tags GROUP BY ROLLUP (tag) HAVING false;
SELECT string_agg(tag, ',' ORDER BY tag) || ' and others' FROM url_tags;
SELECT TIMESTAMP '2300-07-04 12:00' AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin', TIMESTAMP '9999-01-04 12:00' AT TIME ZONE 'UTC' AT TIME ZONE 'Australia/Sydney';
SELECT id, rank() OVER (ORDER BY ceil(x), id) FROM (VALUES (1, '-0.5'::float8), (2, '0'::float8), (3, '-0'::float8)) AS v(id, x) ORDER BY 1;
SELECT sum(x) > 1 FROM (VALUES ('Infinity'::float8), ('-Infinity'::float8)) AS v(x);
SELECT '-0'::float8 = 0, count(DISTINCT x) FROM (VALUES ('0'::float8), ('-0'::float8), (ceil('-0.5'::float8)), (trunc('-0.5'::float8))) AS v(x);
SELECT extract(year FROM TIMESTAMP '0001-01-01' - INTERVAL '1 day'), date_part('isoyear', TIMESTAMP '0001-01-01' - INTERVAL '7 days');
SELECT (TIMESTAMP '0001-01-01' - INTERVAL '1 day')::text, (DATE '0001-01-01' - 1)::text, (DATE '9999-12-31' + 1)::text;
SELECT initcap('große straßen'), upper('groß'), lower('GROẞ');
SELECT round(2.25, 0) <= 0.1, round(1.50, 0) * 2.5 > trunc(0.5), coalesce(0.1, round(1.50, 2));
SELECT date_trunc('month', created_at) AS month, status, count(*), grouping(date_trunc('month', created_at), status) FROM jobs GROUP BY ROLLUP (date_trunc('month', created_at), status) ORDER BY 1, 2, 4;
SELECT url IS NOT NULL, lag(1 + 0, 1, 7) OVER (ORDER BY id), lag(1) OVER (ORDER BY id) FROM urls ORDER BY 1, 2, 3;
SELECT TIMESTAMP '0001-01-01' - TIMESTAMP '2026-01-01' < coalesce(max(created_at) - TIMESTAMP '2026-01-01', INTERVAL '1 day') FROM jobs;
SELECT -cardinality(string_to_array('a,b', ',')), 2 * CASE WHEN true THEN cardinality(ARRAY[1, 2]) ELSE 0 END, -array_length(ARRAY[1, 2], 1);
(SELECT 2, url FROM urls) UNION ALL (SELECT 1, url FROM readings) ORDER BY 1, 2 LIMIT 1;
SELECT 'a\b' ~ '[\\]', 'ab' ~ '[\\]', 'a\b' ~ 'a\\b', 'a%' ~ '\\%';
SELECT 'b' AS kind, url FROM urls WHERE url LIKE '%1' UNION ALL SELECT 'a', url FROM urls WHERE url LIKE '%2' ORDER BY 1, 2;
SELECT url, -rank() OVER (ORDER BY url), CASE WHEN url LIKE '%1' THEN rank() OVER (ORDER BY url) ELSE 0 END FROM urls ORDER BY 1;
SELECT tag COLLATE "C" FROM url_tags GROUP BY 1 ORDER BY 1;
SELECT make_timestamp(2026, 2, 28, 23, 59, 30.5), (DATE '2026-01-01', INTERVAL '10 days') OVERLAPS (DATE '2026-01-05', DATE '2026-02-01');

-- Doubles with NaN: the greatest of all
SELECT g, min(x::float8), max(x::float8) FROM (VALUES (1, 'NaN'), (1, '2.5'), (1, '-Infinity'), (2, '-Infinity'), (3, 'NaN'), (3, 'Infinity'), (4, NULL), (5, 'Infinity'), (5, 'NaN'), (5, '1')) AS v(g, x) GROUP BY g ORDER BY g;
SELECT m FROM (SELECT g, min(x::float8) AS m FROM (VALUES (1, 'NaN'), (2, '2.5'), (3, 'NaN'), (4, '-1'), (1, '7')) AS v(g, x) GROUP BY g ORDER BY m LIMIT 2) q ORDER BY m;
SELECT DISTINCT x::float8 FROM (VALUES ('NaN'), ('2.5'), ('NaN'), ('-1'), ('Infinity')) AS v(x) ORDER BY 1 DESC LIMIT 3;
SELECT id, min(x::float8) OVER (ORDER BY id ROWS 1 PRECEDING), max(x::float8) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) FROM (VALUES (1, 'NaN'), (2, '2.5'), (3, 'NaN'), (4, '-1')) AS v(id, x) ORDER BY id;

-- Sums and averages of spans
SELECT sum(i), avg(i) FROM (VALUES (INTERVAL '1 day'), (INTERVAL '2 hours'), (NULL), (INTERVAL '-1 month 3 days')) AS v(i);
SELECT sum(b - a), avg(b - a) FROM (VALUES (TIMESTAMP '2026-01-01', TIMESTAMP '2026-01-03 12:00'), (TIMESTAMP '2026-01-01', TIMESTAMP '2025-12-30 10:00')) AS v(a, b);
SELECT status, avg(finished_at - created_at) > INTERVAL '0', sum(finished_at - created_at) < INTERVAL '1 day' FROM jobs GROUP BY status ORDER BY status;
SELECT id, avg(i) OVER (ORDER BY id ROWS 1 PRECEDING) FROM (VALUES (1, INTERVAL '1 day'), (2, INTERVAL '1 hour'), (3, INTERVAL '1 month')) AS v(id, i) ORDER BY id;
SELECT sum(i) IS NULL, avg(i) IS NULL FROM (VALUES (INTERVAL '1 day')) AS v(i) WHERE i > INTERVAL '2 days';

-- Whether something is among the rows of a query, from the other side
SELECT count(*) FROM products WHERE NOT ('x' IN (SELECT maker FROM products));
SELECT count(*) FROM products WHERE NOT (2 IN (SELECT stock FROM products));
SELECT count(*) FROM products WHERE NOT (7777 IN (SELECT stock FROM products));
SELECT count(*) FROM urls u JOIN jobs j ON u.url = j.url AND 7777 NOT IN (SELECT stock FROM products);
SELECT name FROM products WHERE (maker, stock) NOT IN (SELECT maker, stock FROM products WHERE even) ORDER BY name;
SELECT name FROM products WHERE (name, price) NOT IN (SELECT name, price FROM products WHERE even) ORDER BY name;
SELECT count(*) FROM products WHERE NOT ((maker, stock) IN (SELECT maker, stock FROM products WHERE price > 50));
SELECT count(*) FROM products WHERE NOT (stock > ANY (SELECT stock FROM products WHERE even AND stock IS NOT NULL));
SELECT count(*) FROM products WHERE NOT (price <= ALL (SELECT price FROM products WHERE even));

-- Smaller things
SELECT trim(TRAILING FROM ' a '), trim(LEADING FROM ' a '), trim(BOTH FROM ' a '), trim(FROM ' a '), trim(BOTH ' a ');
SELECT ~5, ~(-1), ~stock::bigint FROM products ORDER BY 3 LIMIT 2;
SELECT INTERVAL 'P1Y2M3DT4H5M6S', INTERVAL 'P3D', 'PT5M'::interval, INTERVAL 'P2W', INTERVAL 'PT-4H1.5S', TIMESTAMP '2026-01-31' + INTERVAL 'P1M';
SELECT round(15, -1), round(25, -1), round(-15, -1), round(15, 1), round(stock::int, -1) FROM products ORDER BY 5 LIMIT 1;
SELECT to_char(TIMESTAMP '2026-03-01 14:05:09', 'WW W D'), to_char(TIMESTAMP '2026-12-31', 'FMWW/D'), to_char(TIMESTAMP '2026-01-08', 'WW-FMWW Day D');
SELECT unnest(ARRAY[1, 2, NULL]), 'x';
SELECT sum(DISTINCT n), sum(x::numeric(12, 2)) > 2.25 FROM (VALUES (1, 2.5), (1, 3.5)) AS v(n, x);
-- Names in an order
SELECT id, round(p) AS p FROM (VALUES (1, 10.4::float8), (2, 9.6), (3, 10.1)) t(id, p) ORDER BY abs(p - 10) LIMIT 1;
SELECT coalesce(v, 0) AS v FROM (VALUES (1), (NULL), (-1)) t(v) ORDER BY v IS NULL, v;
SELECT 10 - v AS v FROM (VALUES (1), (5), (3)) t(v) ORDER BY -v;
SELECT id, lower(s) AS s FROM (VALUES (1, 'b'), (2, 'A'), (3, 'C')) t(id, s) ORDER BY s COLLATE "C";
SELECT g, sum(v) AS v FROM (VALUES (1, 5), (2, 1), (2, 2), (3, 9)) t(g, v) GROUP BY g ORDER BY sum(v) DESC;
SELECT g, sum(v) AS v, count(*) AS n FROM (VALUES (1, 5), (2, 1), (2, 2), (3, 9)) t(g, v) GROUP BY g ORDER BY sum(v) / count(*) DESC, g;
SELECT g, count(*) AS n FROM (VALUES (1, 5), (2, 1), (2, 2), (3, 9)) t(g, n) GROUP BY g ORDER BY sum(n) DESC;
SELECT g, max(v) AS g2, -g AS v FROM (VALUES (1, 5), (2, 1), (2, 2), (3, 9)) t(g, v) GROUP BY g ORDER BY min(v) + g, 1;
SELECT a.*, -b.w AS w FROM (VALUES (1, 5), (2, 1)) a(id, v) JOIN (VALUES (1, 7), (2, 9)) b(id2, w) ON id = id2 ORDER BY w * 1;
SELECT name, price * -1 AS price FROM products ORDER BY price * 2 DESC, name LIMIT 4;
SELECT upper(name) AS name, price AS p FROM products ORDER BY length(name), name DESC LIMIT 5;
SELECT maker, count(*) AS stock FROM products GROUP BY maker ORDER BY sum(stock) DESC, maker;
SELECT maker, avg(price) AS price FROM products GROUP BY maker ORDER BY avg(price) DESC, maker;
SELECT maker, rank() OVER (ORDER BY price) AS price, name FROM products ORDER BY price * -1, name;
SELECT DISTINCT -stock AS stock FROM products ORDER BY -stock;
SELECT DISTINCT stock AS s, maker AS stock FROM products ORDER BY stock, s;
SELECT DISTINCT ON (maker) maker, -price AS price FROM products ORDER BY maker, price, name;
SELECT DISTINCT ON (maker) maker, -price AS price, name FROM products ORDER BY maker, price * 1, name;
SELECT (SELECT -v AS v FROM (VALUES (1), (5), (3)) t(v) ORDER BY v + 0 LIMIT 1), ARRAY(SELECT -v AS v FROM (VALUES (1), (5), (3)) t(v) ORDER BY v * 1);
SELECT v FROM (SELECT -v AS v FROM (VALUES (1), (5), (3)) t(v) ORDER BY v * 1 LIMIT 2) q UNION ALL SELECT 7 ORDER BY v;
(SELECT -v AS v FROM (VALUES (1), (5), (3)) t(v) ORDER BY abs(v - 4), v LIMIT 1) UNION ALL (SELECT v * 2 AS v FROM (VALUES (1), (5)) t(v) ORDER BY 0 - v LIMIT 1) ORDER BY v;
SELECT -v AS v FROM (VALUES (1), (5), (3)) t(v) ORDER BY (v), 1;
SELECT CASE WHEN v > 2 THEN 0 ELSE v END FROM (VALUES (1), (5), (3)) t(v) ORDER BY v * -1;
WITH q AS (SELECT -v AS v FROM (VALUES (1), (5), (3)) t(v)) SELECT v * 2 AS v FROM q ORDER BY v + 1 LIMIT 2;
SELECT a.id, a.v * b.v AS v FROM (VALUES (1, 3), (2, 2)) a(id, v) JOIN (VALUES (1, -4), (2, 1)) b(id, v) USING (id) ORDER BY a.v;

-- Numbers with an exponent
SELECT round(1e3), round(25e3), round(-1e2, 0), 1e3, 1.5e3, 2.5e-3, -1e0, 1e3 + 1, 7 / 2e0, 1e2 = 100, round(1.25e1);
SELECT v * 1e3, v + 1e3, v - 2e2, v / 1e2, v % 1e1, v > 1e1 FROM (VALUES (1::bigint), (25)) t(v) ORDER BY v;
SELECT count(*) * 1e3, sum(price) * 1e2, max(price) > 1e1, 1e15::float8, 1e3::int, 1e20::numeric FROM products;

-- Rows of several members that are not among those of a query
SELECT a, b FROM (VALUES (1, NULL), (2, 2), (3, 4), (3, NULL)) t(a, b) WHERE NOT ((a, b) IN (SELECT c, d FROM (VALUES (2, 2), (3, 3), (1, 1)) s(c, d)));
SELECT a, b FROM (VALUES (1, NULL), (2, 2), (3, 4), (3, NULL)) t(a, b) WHERE (a, b) NOT IN (SELECT c, d FROM (VALUES (2, 2), (3, 3), (1, 1)) s(c, d));
SELECT a, b FROM (VALUES (1, NULL), (2, 2), (3, 4)) t(a, b) GROUP BY a, b HAVING NOT ((a, b) IN (SELECT c, d FROM (VALUES (2, NULL), (3, 3)) s(c, d)));
SELECT a, b FROM (VALUES (1, NULL), (2, 2), (3, 4)) t(a, b) WHERE NOT (ROW(a, b) NOT IN (SELECT 2, 2));

-- Doubles made exact
SELECT x::numeric(10, 2) AS a, x::numeric(10, 1) AS b, x::numeric(12, 4) AS c FROM (VALUES (0.285::float8), (1.005::float8), (10.075::float8), (-2.675::float8), (0.1::float8), (1e-20::float8), (123456.785::float8), (NULL)) t(x) ORDER BY x;
SELECT price::numeric(10, 1), (price * 1.1)::numeric(10, 2), round(price::numeric, 1), (0.1::float8 + 0.2)::numeric = 0.3, 0.285::real::numeric(5, 2) FROM products ORDER BY name;

-- Classes of letters
SELECT regexp_replace('Müller & Söhne', '[^[:alnum:] ]', '', 'g'), substring('über Öl' FROM '[[:alpha:]]+'), 'É' ~ '[[:upper:]]', 'é' ~ '[[:lower:]]', '٣' ~ '\d', '٣' ~ '[[:alpha:]]', E'\u00a0' ~ '\s', E'\u2003' ~ '\s', 'é' ~ '^\w$', 'é' ~ '\W', '–' ~ '[[:punct:]]', '€' ~ '[[:graph:]]', 'ǅ' ~ '[[:upper:][:digit:]]';
SELECT 'über' SIMILAR TO '[[:alpha:]]+', 'ü1' SIMILAR TO '_[[:digit:]]', 'a.c' SIMILAR TO 'a.c', 'abc' SIMILAR TO 'a.c', regexp_split_to_array('aéb c', '[^[:alpha:]]');
SELECT regexp_replace('aaa', 'aa', 'X', 2), regexp_count('a]b^c', '^', 2), regexp_count('baaac', 'a*'), regexp_replace('baaac', 'a*', 'X', 'g'), regexp_instr('abcabc', 'b', 3), regexp_instr('abcabc', '(b)(c)', 1, 2, 1, 'i', 1), regexp_count('aAa', 'a', 1, 'i'), regexp_replace('a.b', '.', 'X', 'q'), regexp_like('abc', 'B', 'q');
SELECT regexp_replace(E'ba\nb', '[^a]', 'X', 'gn'), regexp_replace(E'a\nb', 'a.b', 'X', 'p'), regexp_replace(E'a\nb', '^b', 'X', 'p'), regexp_replace(E'a\nb', '^b', 'X', 'w'), regexp_replace('ab c', 'b[ ]c', 'X', 'x'), regexp_count(E'a\nb', 'a[^x]', 1, 'n'), regexp_like(E'a\nb', 'a[^x]b', 'n'), E'a\nb' ~ '(?n)a[^x]';

-- Differences of two times are spans of days and the clock
SELECT date_trunc('day', b - a), (b - a)::interval, extract(day FROM (b - a)::interval), b - a + INTERVAL '1 day', extract(day FROM (b - a) - INTERVAL '1 hour'), (b - a) * 2, (b - a) / 2, 1.5 * (b - a), b - a + (b - a), (b - a) - (b - a) FROM (VALUES (TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '2024-01-04 05:00:00'), (TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '2024-01-01 20:00:00'), (TIMESTAMP '2024-01-04 05:00:00', TIMESTAMP '2024-01-01 00:00:00')) t(a, b) ORDER BY a, b;
SELECT b - a AS d FROM (VALUES (TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '2024-01-04 05:00:00')) t(a, b) UNION ALL SELECT INTERVAL '1 mon' ORDER BY 1;
SELECT max(d), min(d), sum(d), avg(d), sum(d) > INTERVAL '1 day', extract(hour FROM sum(d)) FROM (SELECT b - a AS d FROM (VALUES (TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-01 20:00:00'), (TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-01 21:00:00')) t(a, b)) q;
SELECT b - a > INTERVAL '3 days', a + (b - a) = b, DATE '2024-01-01' + (b - a), coalesce(b - a, INTERVAL '1 day'), CASE WHEN b > a THEN b - a ELSE INTERVAL '0' END, (b - a)::text, greatest(b - a, INTERVAL '1 day') FROM (VALUES (TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '2024-01-04 05:00:00')) t(a, b);
SELECT extract(century FROM INTERVAL '150 years'), extract(century FROM INTERVAL '5 months'), extract(millennium FROM INTERVAL '5 months'), extract(decade FROM INTERVAL '-15 years'), extract(century FROM b - a), extract(decade FROM b - a) FROM (VALUES (TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-04')) t(a, b);
SELECT INTERVAL '1 mon 1 day' * 1.99, INTERVAL '1 mon 5 days 10 hours' / 7, INTERVAL '1 mon 29 days' * 0.999, INTERVAL '-1 mon 1 day' * 1.55, INTERVAL '3 days 01:00:00.000001' / 3;
SELECT date_part('seconds', t), date_part('sec', t), extract(milliseconds FROM t), date_part('ms', t), date_part('mins', t), date_part('hrs', t), date_part('yr', t), extract(microseconds FROM t), date_part('qtr', t), extract(milliseconds FROM INTERVAL '00:00:01.0015'), extract(seconds FROM INTERVAL '00:01:01.5') FROM (VALUES (TIMESTAMP '2024-05-06 07:08:01.5'), (TIMESTAMP '2024-05-06 07:08:01.000123')) v(t) ORDER BY t;

-- What a second look found
SELECT lpad('abc', -1), rpad('abc', -2, 'x'), lpad('abc', n, '*'), rpad('abc', n) FROM (VALUES (-3), (2), (5), (NULL)) t(n) ORDER BY n;
SELECT TIMESTAMP '2024-07-01 12:00:00 Europe/Berlin', TIMESTAMP '2024-07-01 12:00:00 EST', '2024-07-01 12:00:00.5 america/new_york'::timestamp;
SELECT (a, b) OVERLAPS (c, d) FROM (VALUES (DATE '2024-01-01', NULL::date, DATE '2024-01-01', DATE '2024-01-02'), (DATE '2024-01-01', DATE '2024-01-03', DATE '2024-01-01', NULL), (DATE '2024-01-01', DATE '2024-01-01', DATE '2024-01-01', DATE '2024-01-02'), (DATE '2024-01-01', NULL, DATE '2024-01-02', DATE '2024-01-05'), (DATE '2024-01-02', NULL, DATE '2024-01-01', DATE '2024-01-05')) t(a, b, c, d) ORDER BY a, b, c, d;
SELECT * FROM generate_series(1, 10, '2');
SELECT json_object_agg(k, v) FROM (VALUES ('a', 1), ('b', NULL)) t(k, v);
-- refused: names and values are gathered each by themselves
SELECT json_object_agg(DISTINCT k, v) FROM (VALUES ('a', 1), ('a', 1)) t(k, v);
SELECT encode('a'::bytea, 'base64'), encode('abc'::bytea, 'hex'), encode(repeat('x', 100)::bytea, 'base64');
SELECT div(9007199254740993, 1), div(-7, 2), div(7.5, 2), div(-9.9, 3);
SELECT width_bucket(0.57, 0, 1, 100), width_bucket(0.57::float8, 0, 1, 100), width_bucket(5, 10, 0, 4), width_bucket(x, 0, 10, 5) FROM (VALUES (-1), (0), (3), (10)) t(x) ORDER BY x;
SELECT make_interval(1, 2, 3, 4, 5, 6, 7.5), make_interval(0, 0, 0, 10), quote_ident('user'), quote_ident('name'), quote_ident('between');

-- Columns that only seem to be constant
SELECT a IS NULL, c IS NULL FROM (VALUES (1), (2)) l(a) FULL JOIN (SELECT count(*) FROM (VALUES (0)) v) r(c) ON a = c + 7 ORDER BY c IS NULL DESC, a;
SELECT a, c FROM (VALUES (1), (2)) l(a) LEFT JOIN (SELECT count(*) AS c FROM (VALUES (0)) v) r ON a = c ORDER BY c NULLS FIRST, a;
SELECT a, row_number() OVER (ORDER BY c NULLS FIRST, a) FROM (VALUES (1), (2)) l(a) LEFT JOIN (SELECT count(*) AS c FROM (VALUES (0)) v) r ON a = c ORDER BY 1;
SELECT * FROM (SELECT coalesce('x', k), k, count(*) FROM (VALUES ('a'), ('b')) t(k) GROUP BY GROUPING SETS ((coalesce('x', k), k), (k), ())) AS whole ORDER BY 1, 2 NULLS FIRST;
SELECT k, n, count(*) FROM (VALUES ('a', 1), ('a', 2), ('b', 1)) t(k, n) WHERE k = 'a' GROUP BY ROLLUP (k, n) ORDER BY k NULLS FIRST, n NULLS FIRST;
SELECT id, max(x) OVER (ORDER BY id) AS m FROM (VALUES (1, NULL), (2, 5), (3, 7)) v(id, x) ORDER BY m LIMIT 1;
SELECT p, id, min(x) OVER (PARTITION BY p ORDER BY id) AS m FROM (VALUES (1, 1, NULL), (1, 2, 5), (1, 3, 3), (2, 1, 4)) v(p, id, x) ORDER BY p, m DESC NULLS LAST, id;
SELECT max(x) OVER (ORDER BY x DESC NULLS LAST ROWS 1 PRECEDING) AS m FROM (VALUES (5), (3), (1)) v(x) ORDER BY m;
SELECT count(x) OVER (ORDER BY x ROWS 1 PRECEDING) AS c FROM (VALUES (1), (2), (NULL), (NULL)) v(x) ORDER BY c;
SELECT x, max(x) OVER (ORDER BY x ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) AS m FROM (VALUES (1), (2), (3)) v(x) ORDER BY m, x;
SELECT max(x) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS m FROM (VALUES (1, 5), (2, NULL)) v(id, x) ORDER BY m DESC;

-- A list of constants and of what differs from row to row
SELECT count(*) FROM (VALUES (true), (false)) t(b) WHERE DATE '2027-12-31' NOT IN (CASE WHEN b THEN DATE '2026-06-30' END, DATE '2026-03-29');
SELECT b, TIMESTAMP '2027-12-31 00:00:00' IN (CASE WHEN b THEN TIMESTAMP '2027-12-31 00:00:00' END, TIMESTAMP '2026-03-29 00:00:00') FROM (VALUES (true), (false)) t(b) ORDER BY b;

SELECT count(*) FROM (VALUES (1, 'x'), (2, 'y'), (NULL, 'z')) t(n, s) WHERE n NOT IN (CASE WHEN starts_with(s, 'a') THEN 7 END, 8, 9, 10, 11);
SELECT s, n * 2 IN (8, coalesce(nullif(n, 2), NULL), nullif(s, 'x')::int, 10, 12) FROM (VALUES (1, 'x'), (2, 'x'), (5, 'x'), (NULL, 'x')) t(n, s) ORDER BY n;
SELECT s, s || '!' NOT IN (CASE s WHEN 'x' THEN 'x!' END, 'q', 'r', 's', 't') FROM (VALUES ('x'), ('y')) t(s) ORDER BY s;
SELECT count(*) FROM jobs t1 WHERE (t1.created_at AT TIME ZONE 'Asia/Kolkata') NOT IN (CASE WHEN starts_with(t1.status, 'a') THEN TIMESTAMPTZ '2024-02-29 00:00:00+00' END, TIMESTAMPTZ '1582-10-15 12:00:00+00', TIMESTAMPTZ '1969-12-31 23:59:59.999+00');

-- Letters without a case where case does not matter
SELECT t, t ~* '^[[:upper:]]', t ~ '^[[:upper:]]', t !~* '[[:lower:]]', t ~* p, t ~ p, regexp_replace(t, '[[:upper:]]', '.', 'gi') FROM (VALUES ('日本', '[[:upper:]]'), ('ab', '(?c)B'), ('1', '[[:lower:]]')) v(t, p) ORDER BY t;
SELECT t, t ~* '(?c)ABC', t !~* '(?c)^abc$', t ~* '(?c)^ABC', t ~* 'ABC' FROM (VALUES ('xabcx'), ('ABC'), ('abc')) v(t) ORDER BY t;

-- JSON is JSON through whatever hands it on
SELECT u.url, json_build_object('m', u.metadata, 'n', 1) FROM urls u ORDER BY 1;
SELECT url, json_build_array("values", changed, url) FROM readings ORDER BY 1;
SELECT json_agg(metadata ORDER BY url) FROM urls;
SELECT json_agg("values" ORDER BY url), jsonb_agg(changed ORDER BY url) FROM readings;
SELECT url, to_json(metadata), to_jsonb(metadata) -> 'marks' FROM urls ORDER BY 1;
SELECT url, to_json(tags), jsonb_build_object('tags', tags, 'metadata', metadata) FROM jobs ORDER BY 1;
SELECT json_object_agg(url, metadata ORDER BY url) FROM urls;
SELECT jsonb_object_agg(n, j) FROM (VALUES ('a', '{"x": 1}'::jsonb), ('b', '[2]'), ('c', NULL)) t(n, j);
SELECT to_json(j), json_build_object('j', j) FROM (SELECT '{"a": [1, {"b": null}]}'::jsonb AS j) q;
SELECT json_build_object('j', j) FROM (SELECT k AS j FROM (SELECT metadata AS k FROM urls) q WHERE true) p;
WITH q AS (SELECT url, metadata AS m FROM urls), p(u, j) AS (SELECT * FROM q) SELECT u, jsonb_build_array(j, j -> 'shelf') FROM p ORDER BY u;
SELECT url, json_build_object('j', coalesce(metadata -> 'lacking', metadata -> 'marks')) FROM urls ORDER BY 1;
SELECT url, to_json(coalesce(metadata, '{}')), to_json(coalesce(metadata -> 'lacking', '[]')) FROM urls ORDER BY 1;
SELECT url, json_build_array(CASE WHEN url LIKE '%1' THEN metadata END, CASE WHEN url LIKE '%2' THEN metadata ELSE '[0]' END) FROM urls ORDER BY 1;
SELECT url, to_json(CASE right(url, 1) WHEN '1' THEN metadata WHEN '2' THEN metadata -> 'marks' ELSE to_json(url) END) FROM urls ORDER BY 1;
SELECT url, jsonb_build_object('j', nullif(metadata::jsonb -> 'shelf', '0')) FROM urls ORDER BY 1;
SELECT json_build_object('j', j) FROM (SELECT metadata AS j FROM urls UNION ALL SELECT "values" FROM readings) q;
SELECT json_build_object('j', j) FROM (SELECT (metadata -> 'shelf')::jsonb AS j FROM urls UNION SELECT '[1]'::jsonb) q;
SELECT jsonb_agg(j ORDER BY j::text) FROM (SELECT (metadata -> 'shelf')::jsonb AS j FROM urls UNION SELECT NULL UNION ALL SELECT '{"a": 1}') q;
SELECT json_build_object('j', j) FROM (SELECT metadata::jsonb -> 'shelf' AS j FROM urls INTERSECT SELECT metadata::jsonb -> 'shelf' FROM urls) q;
SELECT json_build_object('j', j) FROM (SELECT metadata::jsonb -> 'shelf' AS j FROM urls EXCEPT SELECT '1'::jsonb) q;
SELECT DISTINCT jsonb_build_object('shelf', metadata::jsonb -> 'shelf') FROM urls;
SELECT DISTINCT ON (url) url, to_json(metadata) FROM urls ORDER BY url;
SELECT json_build_object('shelf', j, 'count', n) FROM (SELECT metadata::jsonb -> 'shelf' AS j, count(*) AS n FROM urls GROUP BY 1) q;
SELECT metadata::jsonb -> 'shelf' AS shelf, json_build_object('shelf', metadata::jsonb -> 'shelf', 'count', count(*)) FROM urls GROUP BY metadata::jsonb -> 'shelf' ORDER BY 1;
SELECT metadata ->> 'shelf' AS shelf, json_agg(json_build_object('url', url, 'm', metadata) ORDER BY url) FROM urls GROUP BY 1 ORDER BY 1;
SELECT metadata ->> 'shelf' AS shelf, json_agg(metadata -> 'marks' ORDER BY url) FILTER (WHERE url LIKE '%1') FROM urls GROUP BY ROLLUP (metadata ->> 'shelf') ORDER BY 1;
SELECT to_json(array_agg(metadata ORDER BY url)), json_build_object('all', array_agg(metadata ORDER BY url)) FROM urls;
SELECT to_json(list[1]), json_build_object('first', list[2:3]) FROM (SELECT array_agg(metadata ORDER BY url) AS list FROM urls) q;
SELECT json_build_array(j) FROM (SELECT unnest(list) AS j FROM (SELECT array_agg(metadata ORDER BY url) AS list FROM urls) q) p;
SELECT url, to_json(ARRAY[metadata, metadata -> 'marks', NULL]), array_to_json(array_append(ARRAY[metadata], metadata -> 'shelf')) FROM urls ORDER BY 1;
SELECT to_json(ARRAY(SELECT metadata FROM urls ORDER BY url)), json_build_object('none', ARRAY(SELECT metadata FROM urls WHERE false));
SELECT url, to_json(lag(metadata) OVER (ORDER BY url)), json_build_object('next', lead(metadata, 1, '{}') OVER (ORDER BY url)) FROM urls ORDER BY 1;
SELECT url, json_build_array(first_value(metadata) OVER w, last_value(metadata) OVER w, nth_value(metadata, 2) OVER w) FROM urls WINDOW w AS (PARTITION BY metadata ->> 'shelf' ORDER BY url) ORDER BY 1;
SELECT json_build_object('j', j, 'n', n) FROM (SELECT metadata AS j, row_number() OVER (ORDER BY url) AS n FROM urls) q WHERE n < 5 ORDER BY n;
SELECT json_build_object('url', u.metadata, 'reading', r."values") FROM urls u JOIN readings r ON r.url = u.url ORDER BY u.url;
SELECT json_build_array(u.metadata, r.changed) FROM urls u LEFT JOIN readings r ON r.url = u.url ORDER BY u.url;
SELECT json_build_array(u.metadata, r.changed) FROM readings r RIGHT JOIN urls u ON r.url = u.url ORDER BY u.url;
SELECT json_build_object('m', u.metadata) FROM urls u WHERE EXISTS (SELECT 1 FROM readings r WHERE r.url = u.url) ORDER BY u.url;
SELECT r.url, json_build_object('m', (SELECT u.metadata FROM urls u WHERE u.url = r.url ORDER BY u.created_at LIMIT 1)) FROM readings r ORDER BY 1;
SELECT to_json((SELECT metadata FROM urls ORDER BY url LIMIT 1)), json_build_object('all', (SELECT json_agg(metadata ORDER BY url) FROM urls));
SELECT u.url, x.j, json_build_object('x', x.j, 'm', x.m) FROM urls u, LATERAL (SELECT u.metadata -> 'marks' AS j, u.metadata AS m) x ORDER BY 1;
SELECT u.url, json_build_object('x', x.o) FROM urls u CROSS JOIN LATERAL (SELECT json_build_object('c', r.changed, 'v', r."values") AS o FROM readings r WHERE r.url = u.url) x ORDER BY 1;
SELECT u.url, to_json(x.m) FROM urls u, LATERAL (SELECT r."values" AS m FROM readings r WHERE r.url = u.url ORDER BY r.scraped_at DESC LIMIT 1) x ORDER BY 1;
SELECT u.url, json_build_array(e.value, e.key) FROM urls u, json_each(u.metadata) AS e ORDER BY 1, e.key;
SELECT u.url, json_build_array(e.value, e.key) FROM urls u, json_each_text(u.metadata) AS e ORDER BY 1, e.key;
SELECT u.url, json_build_object('e', e) FROM urls u, json_array_elements(u.metadata -> 'marks') AS e ORDER BY 1, e::text;
SELECT u.url, to_json(e), x.n FROM urls u, json_array_elements_text(u.metadata -> 'marks') WITH ORDINALITY AS x(e, n) ORDER BY 1, 3;
SELECT u.url, json_build_object('e', e.value) FROM urls u LEFT JOIN LATERAL json_array_elements(u.metadata -> 'marks') AS e(value) ON true ORDER BY 1, e.value::text;
SELECT to_json(q.e) FROM (SELECT json_array_elements(metadata -> 'marks') AS e FROM urls) q ORDER BY q.e::text;
SELECT id, to_json(j), json_build_object('j', j) FROM (VALUES (1, '{"a": 1}'::jsonb), (2, '[1, "x"]'), (3, NULL)) t(id, j) ORDER BY 1;
WITH RECURSIVE r(n, j) AS (SELECT 1, '{"in": 0}'::jsonb UNION ALL SELECT n + 1, jsonb_build_object('in', j) FROM r WHERE n < 5) SELECT n, j, json_build_array(j) FROM r ORDER BY n;
SELECT a || b, jsonb_build_object('both', a || b) FROM (SELECT metadata::jsonb AS a, jsonb_build_object('url', url) AS b FROM urls) q ORDER BY b ->> 'url';
SELECT url, metadata::jsonb || jsonb_build_object('v', (SELECT r."values" FROM readings r WHERE r.url = u.url ORDER BY r.scraped_at LIMIT 1)) FROM urls u ORDER BY 1;
SELECT json_build_object('text', metadata::text, 'member', metadata ->> 'marks', 'upper', upper(metadata::text)) FROM urls;
SELECT to_json(t), json_build_array(t) FROM (SELECT metadata::text AS t FROM urls) q ORDER BY t;
SELECT to_json(t) FROM (SELECT '[1]'::text AS t UNION ALL SELECT metadata ->> 'marks' FROM urls) q ORDER BY t;
SELECT to_json("values"), json_build_object('v', "values") FROM (SELECT name AS "values" FROM products) q ORDER BY "values";
SELECT to_json(metadata) FROM (VALUES ('[1]'::text), ('{}')) t(metadata) ORDER BY metadata;
SELECT json_strip_nulls(j), json_build_object('s', json_strip_nulls(j)) FROM (SELECT json_build_object('a', metadata -> 'lacking', 'b', metadata) AS j FROM urls) q ORDER BY j::text;
SELECT json_build_object('p', json_extract_path(metadata, 'marks', '0'), 't', json_extract_path_text(metadata, 'marks')) FROM urls ORDER BY url;
SELECT json_build_object('made', made, 'count', n) FROM (SELECT maker, json_agg(json_build_object('name', name, 'price', price) ORDER BY name) AS made, count(*) AS n FROM products GROUP BY maker) q ORDER BY maker;
SELECT json_object_agg(maker, made ORDER BY maker) FROM (SELECT maker, json_object_agg(name, price ORDER BY name) AS made FROM products GROUP BY maker) q;
SELECT mode() WITHIN GROUP (ORDER BY metadata::jsonb -> 'shelf'), to_json(mode() WITHIN GROUP (ORDER BY metadata::jsonb -> 'shelf')) FROM urls;
SELECT json_agg(metadata -> 'shelf') OVER (ORDER BY url ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS two FROM urls;
SELECT to_json(greatest(metadata::jsonb -> 'shelf', '1')), to_json(least(metadata::jsonb -> 'shelf', '1')) FROM urls;
SELECT json_object_agg(url, metadata) OVER (ORDER BY url ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS two, json_build_object('p', json_agg(metadata) OVER (PARTITION BY metadata ->> 'shelf' ORDER BY url)) AS p FROM urls ORDER BY url;

-- Functions that no statement above calls (every one has a statement: src/sql/src/postgres/table/tests.rs)
SELECT round(acos(0.5)::numeric, 9) AS a, round(asin(0.5)::numeric, 9) AS b, round(atan(0.5)::numeric, 9) AS c, round(tan(0.5)::numeric, 9) AS d, round(cot(0.5)::numeric, 9) AS e;
SELECT round(acosh(2)::numeric, 8) AS a, round(asinh(0.5)::numeric, 8) AS b, round(atanh(0.5)::numeric, 8) AS c, round(cosh(0.5)::numeric, 8) AS d, round(sinh(0.5)::numeric, 8) AS e, round(tanh(0.5)::numeric, 8) AS f;
SELECT log10(1000::float8) AS a, log10(0.001::float8) AS b;
SELECT array_cat(ARRAY[1, 2], ARRAY[3]) AS a, array_prepend(0, ARRAY[1]) AS b, array_positions(ARRAY[1, 2, 1], 1) AS c, array_ndims(ARRAY[1, 2]) AS d;
SELECT array_replace(ARRAY[1, 2, 1], 1, 5) AS a, array_remove(ARRAY[1, 2, 1], 1) AS b;
SELECT character_length(name), octet_length(name) FROM products ORDER BY name;
SELECT encode(decode('00ff', 'hex'), 'hex') AS a, encode(decode('AP8=', 'base64'), 'hex') AS b;
SELECT url, json_object_keys(metadata) AS k FROM urls ORDER BY url, k;
SELECT jsonb_array_length('[1, 2]'::jsonb) AS a, jsonb_typeof('{"a": 1}'::jsonb) AS b, jsonb_extract_path_text('{"a": {"b": 1}}'::jsonb, 'a', 'b') AS c;
SELECT json_object(ARRAY['a', 'b'], ARRAY['1', '2']);
SELECT make_time(10, 20, 30);
SELECT round(regr_avgx(price, stock)::numeric, 6) AS a, round(regr_avgy(price, stock)::numeric, 6) AS b, round(regr_sxx(price, stock)::numeric, 6) AS c, round(regr_sxy(price, stock)::numeric, 6) AS d, round(regr_syy(price, stock)::numeric, 4) AS e FROM products;
SELECT encode(sha384('abc'::bytea), 'hex');
SELECT string_to_table('a,b,c', ',') AS t ORDER BY t;
SELECT metadata -> 'marks' -> 0 AS a, metadata -> 'marks' ->> 1 AS b, metadata -> 'nothing' -> 'x' ->> 'y' AS c FROM urls ORDER BY url;
SELECT stock + stock - 3 * stock + (stock - 1) * 2 AS a, price + price - 2 * price / 4 AS b, -0.0::float8 * price - 0 AS c FROM products ORDER BY name;
SELECT coalesce(coalesce(coalesce(stock, 1), 2), 3) AS a, stock::text::text::text::int::int AS b FROM products ORDER BY name;
SELECT * FROM (SELECT name, price AS p FROM products) AS t(n) ORDER BY n;
SELECT t.n, t.stock FROM (SELECT name, stock FROM products) AS t(n) WHERE t.stock > 2 ORDER BY 1;
SELECT to_timestamp(1e10), to_timestamp(1.5), to_timestamp(-1e10), to_timestamp(253402300800), to_timestamp(stock) FROM products ORDER BY name;
SELECT row_number() OVER (ORDER BY name) AS a, rank() OVER (ORDER BY price) AS b, dense_rank() OVER (ORDER BY price) AS c, ntile(3) OVER (ORDER BY name) AS d FROM products ORDER BY name;
SELECT -(b - a) AS back, -(b - a) < INTERVAL '0' AS behind FROM (VALUES (TIMESTAMP '2026-02-01 10:00', TIMESTAMP '2026-02-03 12:30')) t(a, b);
SELECT '[1]'::jsonb || '["x"]' AS a, '["x"]' || '{"a": 1}'::jsonb AS b, '[1]'::jsonb || '[2]' || '[3]' || '{"k": null}' AS c;
