import process from 'node:process'
import { type Conversation, hold } from './fifty-turns.ts'

await hold(JSON.parse(process.argv[2] ?? '') as Conversation)
