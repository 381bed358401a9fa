// An agent: what it remembers, how it works
export { conversationMemory } from './conversation/memory.ts'
export { agentLoop } from './agent/loop.ts'

// Models
export { openAiCompatible } from './llm/openai-compatible.ts'
export { scriptedModel } from './llm/scripted.ts'
export type { LlmDelta, LlmRequest, LlmResponse, ModelOptions } from './llm/answer-requests.ts'

// Tools
export { fileTools } from './tools/files.ts'
export { shellTool } from './tools/shell.ts'
export { noteTools } from './tools/notes.ts'

// Gates and control
export { tokenBudget } from './gate/token-budget.ts'
export { cancelControl, type CancelControl } from './control/cancel.ts'

// Evaluation
export { evalCase, type EvalCase, type EvalVerdict } from './eval/eval-case.ts'
export {
  runEval,
  type EvalCaseInput,
  type EvalCaseResult,
  type EvalRunOptions,
  type EvalRunResult,
} from './eval/run-eval.ts'

// For plugins of your own
export { defineTool, serveTools, type ServedTools, type Tool, type ToolRun } from './tools/serve-tools.ts'
export { ModelCalls } from './llm/ask-model.ts'
export { TurnSignals } from './turn/turn-signals.ts'
export { isMessage, type Message, type ToolCall } from './message.ts'
