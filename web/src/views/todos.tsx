/** Todo lists of agents. */

import './todos.css';
import { Circle, CircleCheck, CircleDot, ListTodo } from 'lucide-preact';
import type { TodoItem } from '../api/types.ts';

const ICONS = { pending: Circle, in_progress: CircleDot, completed: CircleCheck };
const STATUS_LABELS = { pending: 'to do', in_progress: 'in progress', completed: 'done' };

export function TodoList({ todos }: { todos: TodoItem[] }) {
  return (
    <ul role="list" class="todos">
      {todos.map(({ content, status, priority }, index) => {
        const Icon = ICONS[status];
        return (
          // Not keyed by id: agents may use an id twice.
          <li key={index} data-status={status}>
            <Icon size={16} />
            <span>{content}</span>
            <span class="visually-hidden">, {STATUS_LABELS[status]}</span>
            {priority === 'high' && <span class="chip warn">high</span>}
          </li>
        );
      })}
    </ul>
  );
}

/** The session's todos above the composer, until all are done. Shows only the current todo while collapsed. */
export function TodoStrip({ todos }: { todos: TodoItem[] }) {
  const done = todos.filter(({ status }) => status === 'completed').length;
  const current = todos.find(({ status }) => status === 'in_progress') ?? todos.find(({ status }) => status === 'pending');
  if (!current) return null;
  // The current todo may be below many others. `scrollIntoView` would also scroll the page.
  const showCurrent = ({ currentTarget }: Event) => {
    const item = (currentTarget as Element).querySelectorAll('li')[todos.indexOf(current)];
    const list = item?.parentElement;
    if (list) list.scrollTop = item.offsetTop - list.offsetTop - list.clientHeight / 2;
  };
  return (
    <details class="todo-strip" onToggle={showCurrent}>
      <summary>
        <ListTodo size={16} />
        <span>
          {done}/{todos.length}
        </span>
        <span class="ellipsis">{current.content}</span>
        <progress class="usage-bar" value={done} max={todos.length} aria-label="Todos done" />
      </summary>
      <TodoList todos={todos} />
    </details>
  );
}
