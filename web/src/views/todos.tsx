/** The session's todos. */

import './todos.css';
import { Circle, CircleCheck, CircleDot, ListTodo } from 'lucide-preact';
import type { TodoItem } from '../api/types.ts';

const ICONS = { pending: Circle, in_progress: CircleDot, completed: CircleCheck };
const WORDS = { pending: 'to do', in_progress: 'in progress', completed: 'done' };

/** A list of todos. */
export function TodoList({ todos }: { todos: TodoItem[] }) {
  return (
    <ul role="list" class="todos">
      {todos.map(({ content, status, priority }, at) => {
        const Icon = ICONS[status];
        return (
          // Their ids are the agent's, which may give one twice.
          <li key={at} data-status={status}>
            <Icon size={16} aria-hidden />
            <span>{content}</span>
            <span class="hidden-visually">, {WORDS[status]}</span>
            {priority === 'high' && <span class="chip warn">high</span>}
          </li>
        );
      })}
    </ul>
  );
}

/** The todos above the composer, folded to the one that is being done. */
export function Todos({ todos }: { todos: TodoItem[] }) {
  const done = todos.filter(({ status }) => status === 'completed').length;
  const current = todos.find(({ status }) => status === 'in_progress') ?? todos.find(({ status }) => status === 'pending');
  return (
    <details class="todo-strip">
      <summary>
        <ListTodo size={16} aria-hidden />
        <span>
          {done}/{todos.length}
        </span>
        <span class="ellipsis">{current?.content ?? 'All done'}</span>
        <progress value={done} max={todos.length} aria-label="Todos done" />
      </summary>
      <TodoList todos={todos} />
    </details>
  );
}
