/** Runs a command in a terminal, where the person sees it and what came of it stays. */
import { ProcessExecution, Task, TaskRevealKind, tasks, TaskScope, type Disposable, type TaskExecution } from "vscode";

/** The end of a process may be told later than that of its task. */
const LATE_MS = 1000;

/** Resolves when the command ended, in the folder `cwd`: true when it went well. No shell reads its arguments. */
export async function inTerminal(name: string, command: string, args: string[], cwd: string): Promise<boolean> {
  const task = new Task(
    { type: "process" },
    TaskScope.Workspace,
    name,
    "Warmline",
    new ProcessExecution(command, args, { cwd }),
    [],
  );
  task.presentationOptions = { reveal: TaskRevealKind.Always, clear: false };
  const listening: Disposable[] = [];
  // Listened to from before it begins: a command that is not there ends at once.
  const ends = new Map<TaskExecution, boolean>();
  let execution: TaskExecution | undefined;
  try {
    return await new Promise<boolean>((resolve) => {
      const ended = (one: TaskExecution, well: boolean): void => {
        ends.set(one, ends.get(one) ?? well);
        if (one === execution) {
          resolve(ends.get(one) === true);
        }
      };
      listening.push(
        tasks.onDidEndTaskProcess((event) => ended(event.execution, event.exitCode === 0)),
        // It has no process either whose end would be told.
        tasks.onDidEndTask((event) => setTimeout(() => ended(event.execution, false), LATE_MS)),
      );
      tasks.executeTask(task).then(
        (begun) => {
          execution = begun;
          if (ends.has(begun)) {
            ended(begun, false);
          }
        },
        () => resolve(false), // VS Code has said why
      );
    });
  } finally {
    listening.forEach((each) => each.dispose());
  }
}
