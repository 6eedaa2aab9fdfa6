import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;

/** Runs the SQL statements of a file one after the other, on a cluster within this process. */
class RunSql {
    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        TableEnvironment flink = null;
        for (String statement : Files.readString(Path.of(arguments[0])).split(";\\s*")) {
            if (statement.startsWith("SET ")) {
                // SET 'key' = 'value', as in Flink's own SQL client; before all others.
                String[] words = statement.split("'");
                settings.setString(words[1], words[3]);
                continue;
            }
            if (flink == null) {
                flink = TableEnvironment.create(
                        EnvironmentSettings.newInstance().withConfiguration(settings).build());
            }
            TableResult result = flink.executeSql(statement);
            if (statement.startsWith("SELECT ")) {
                result.print();
            } else {
                result.await();
            }
        }
        // Threads of the cluster linger.
        System.exit(0);
    }
}
