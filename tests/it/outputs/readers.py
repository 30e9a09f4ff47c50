# Reads files of an output with one library, and prints the rows as id|title|price, in their order.
# Arguments: which library and kind, and the folder. Exits with 3 where the library is absent.
import glob
import sys

what, folder = sys.argv[1], sys.argv[2]
COLUMNS = ["result_id", "title", "price"]


def rows(frame):
    for one in sorted(zip(*(frame[name].tolist() for name in COLUMNS)), key=repr):
        print("|".join(str(value) for value in one))


try:
    if what == "deltalake":
        from deltalake import DeltaTable

        rows(DeltaTable(folder).to_pandas())
    elif what == "deltalake-checkpoint":
        from deltalake import DeltaTable

        table = DeltaTable(folder)
        table.create_checkpoint()
        print(table.version())
    elif what == "duckdb-parquet":
        import duckdb

        # By day: the checkpoints of a table's log are parquet files as well.
        rows(duckdb.sql(f"SELECT * FROM read_parquet('{folder}/scraped_date=*/*.parquet', union_by_name = true)").df())
    elif what == "duckdb-delta":
        import duckdb

        try:
            duckdb.sql("INSTALL delta; LOAD delta")
        except Exception as error:
            print(f"the extension cannot be had: {error}", file=sys.stderr)
            sys.exit(3)
        rows(duckdb.sql(f"SELECT * FROM delta_scan('{folder}')").df())
    elif what == "pandas-parquet":
        import pandas

        files = glob.glob(f"{folder}/scraped_date=*/*.parquet")
        rows(pandas.concat([pandas.read_parquet(name, partitioning=None) for name in files]))
    elif what == "pandas-csv":
        import pandas

        rows(pandas.concat([pandas.read_csv(name) for name in glob.glob(f"{folder}/*/*/*.csv")]))
    elif what == "pandas-jsonl":
        import pandas

        files = glob.glob(f"{folder}/*/*/*.jsonl")
        rows(pandas.concat([pandas.read_json(name, lines=True) for name in files]))
    elif what.startswith("spark-"):
        from pyspark.sql import SparkSession

        spark = (
            SparkSession.builder.master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .getOrCreate()
        )
        kind = what.removeprefix("spark-")
        reader = spark.read.option("header", "true").option("mergeSchema", "true")
        if kind == "csv":
            reader = reader.option("inferSchema", "true").option("escape", '"').option("multiLine", "true")
        frame = reader.format(kind).load(folder)
        for row in sorted(tuple(row) for row in frame.select(*COLUMNS).collect()):
            print("|".join(str(value) for value in row))
    else:
        sys.exit(f"unknown: {what}")
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(3)
