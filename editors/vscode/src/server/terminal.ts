/** Runs a command in a terminal, where the person sees it and what came of it stays. */
import { ProcessExecution, Task, TaskRevealKind, tasks, TaskScope } from "vscode";

/** Resolves when the command ended: true when it went well. No shell reads its arguments. */
export async function inTerminal(name: string, command: string, args: string[]): Promise<boolean> {
  const task = new Task(
    { type: "process" },
    TaskScope.Workspace,
    name,
    "Warmline",
    new ProcessExecution(command, args),
    [],
  );
  task.presentationOptions = { reveal: TaskRevealKind.Always, clear: false };
  const execution = await tasks.executeTask(task);
  return await new Promise((resolve) => {
    const listening = tasks.onDidEndTaskProcess((event) => {
      if (event.execution === execution) {
        listening.dispose();
        resolve(event.exitCode === 0);
      }
    });
  });
}
