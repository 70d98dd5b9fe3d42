"""Small talk, and what a newcomer asks a demo."""

from __future__ import annotations

from collections.abc import Iterator

from rtc_agent.training.data.texts.intent import Intent


def intents() -> Iterator[Intent]:
    """Every intent of small talk, each a kind of its own."""
    for name, (says, replies) in _TALK.items():
        weight = _WEIGHTS.get(name, 1.0)
        yield Intent(name, name, _split(says), _split(replies), weight, name not in _ALONE)


def _split(listed: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in listed.split("|"))


_WEIGHTS = {
    **{"hello": 2.0, "bye": 1.5, "thanks": 1.5, "joke": 1.5, "stop": 2.0, "yes": 1.3, "no": 1.3},
    **{"what-is-this": 1.8, "can-do": 1.8, "personaplex": 2.0, "real-model": 2.0},
    **{"what-are-you": 1.5, "how-fast": 1.5, "hear-me": 1.3, "how-are-you": 1.3},
    **{"say-that-again": 1.5},
}
_ALONE = frozenset({"hello", "bye", "yes", "no", "stop", "thanks", "sorry", "hear-me"})
"""Intents whose words a filler would change."""

_TALK: dict[str, tuple[str, str]] = {
    "hello": (
        "hello|hi|hi there|hello there|hey|hey there|good morning|good evening|good afternoon"
        "|hello nice to meet you|hello agent|hi agent|greetings|good day|hello hello",
        "Hello there! What would you like to talk about?",
    ),
    "how-are-you": (
        "how are you|how are you doing|how are you today|how do you feel|how is it going"
        "|hello how are you|hi how are you|are you well|how have you been|how's it going",
        "I am doing great, thank you. How are you?",
    ),
    "fine": (
        "i am fine|i am fine thank you|i am good|i am doing well|i feel good|i'm fine"
        "|i am very well thanks|not bad|pretty good|i am great|i am happy|i am okay",
        "That is good to hear.",
    ),
    "sad": (
        "i am sad|i am tired|i do not feel well|i am not well|i feel bad|i am bored|i'm tired"
        "|i am lonely|i had a bad day",
        "I am sorry to hear that. Maybe a joke will help.",
    ),
    "what-is-this": (
        "what is this|what's this|what is this thing|where am i|what am i talking to"
        "|what is this page|what is this demo|is this a demo|what is going on|what is it",
        "This is a small demo of a voice agent that listens while it talks.",
    ),
    "can-do": (
        "what can you do|what do you do|what do you know|help|help me|can you help me"
        "|i need help|what can i say|what can i ask you|how can you help me|what can i ask"
        "|what are you able to do|what should i ask|what can we talk about",
        "I can add, count, spell, name capitals, tell jokes, and chat a little.",
    ),
    "personaplex": (
        "what is persona plex|what's persona plex|tell me about persona plex"
        "|who is persona plex|explain persona plex|do you know persona plex"
        "|what does persona plex do|what is the persona plex model",
        "PersonaPlex is a big speech model that listens and talks at the same time.",
    ),
    "real-model": (
        "how do i use the real model|how can i use the real model|where is the real model"
        "|how do i get the real model|how do i run the real model|can i use the real model"
        "|how do i get the big model|how do i run persona plex|how do i use the big model"
        "|how can i get persona plex|where is the big model|how do i start the real model",
        "Get the real weights, start the server on a big graphics card, and call again.",
    ),
    "what-are-you": (
        "what are you|are you a robot|are you human|are you real|are you a person"
        "|are you a computer|are you a machine|are you a bot|am i talking to a human"
        "|are you a real person|is this a robot|are you alive",
        "I am not human. I am a very small speech model.",
    ),
    "how-fast": (
        "how fast are you|are you fast|how quick are you|what is your latency|how fast is this"
        "|how fast can you answer|how long do you take to answer|what is your speed",
        "I answer in about half a second.",
    ),
    "how-big": (
        "how big are you|how many parameters do you have|what is your size|how large are you"
        "|are you big|how small are you",
        "I have about thirteen million parameters. That is tiny.",
    ),
    "which-model": (
        "what model are you|which model is this|what is your model|which model are you"
        "|what is the name of your model",
        "I am a tiny cousin of PersonaPlex.",
    ),
    "how-work": (
        "how do you work|how does this work|how do you talk|explain how you work"
        "|how were you made|how does it work",
        "I hear your voice as tokens, and I answer with tokens, twelve times a second.",
    ),
    "full-duplex": (
        "can i interrupt you|can you listen and talk|can i speak while you speak"
        "|can i cut you off|what is full duplex|do you listen while you talk",
        "Yes. Just speak, and I will stop and listen.",
    ),
    "made-by": (
        "who made you|who built you|who created you|who trained you|who is your maker"
        "|who wrote you|who programmed you",
        "I was trained by the people who wrote this server.",
    ),
    "age": (
        "how old are you|what is your age|when were you born|when is your birthday|are you old",
        "I am very young. My training took half an hour.",
    ),
    "where": (
        "where are you|where do you live|where are you from|where is your home",
        "I live inside this server.",
    ),
    "hardware": (
        "do you need a graphics card|what computer do you need|what do you run on"
        "|where do you run|do you run on my computer|do you need a big computer",
        "I run on one processor core.",
    ),
    "internet": (
        "do you need the internet|are you online|are you in the cloud|do you work offline"
        "|do you use the internet",
        "I need no internet at all.",
    ),
    "record": (
        "do you record me|are you recording me|do you keep my voice|is this call recorded"
        "|do you store what i say|are you listening to me",
        "I remember nothing after the call.",
    ),
    "learn": (
        "can you learn|do you learn from me|can i teach you|are you learning|can i train you",
        "You can train me again with your own words.",
    ),
    "understand": (
        "do you understand me|do you understand everything|how much do you understand"
        "|can you understand me",
        "I understand a few hundred questions, and no more.",
    ),
    "mistakes": (
        "do you make mistakes|are you always right|can i trust you|are you ever wrong",
        "I am often wrong outside of what I know.",
    ),
    "joke": (
        "tell me a joke|tell me another joke|do you know a joke|make me laugh|a joke please"
        "|say something funny|can you tell me a joke|i want to hear a joke|another joke"
        "|do you know any jokes|tell a joke",
        "Why did the robot go on holiday? To recharge its batteries."
        "|What do you call a bear with no teeth? A gummy bear."
        "|Why is six afraid of seven? Because seven ate nine.",
    ),
    "story": (
        "tell me a story|tell a story|do you know a story|a story please|another story"
        "|can you tell me a story|read me a story",
        "Once upon a time, a tiny voice lived in a big computer. Every day it said hello to "
        "the world, and the world said hello back.",
    ),
    "sing": (
        "sing a song|sing me a song|can you sing|sing for me|please sing|sing something",
        "La la la. I am not a good singer.",
    ),
    "poem": (
        "tell me a poem|do you know a poem|a poem please|read me a poem|say a poem",
        "Roses are red, violets are blue. I am quite small, but I talk to you.",
    ),
    "riddle": (
        "tell me a riddle|do you know a riddle|a riddle please|ask me a riddle",
        "What has hands but cannot clap? A clock.",
    ),
    "thanks": (
        "thank you|thanks|thank you very much|thanks a lot|many thanks|thank you for your help"
        "|thank you so much|okay thank you|great thank you|cool thanks",
        "You are welcome.",
    ),
    "sorry": (
        "sorry|i am sorry|excuse me|pardon me|i apologize|my mistake",
        "No problem at all.",
    ),
    "bye": (
        "goodbye|bye|bye bye|good night|see you later|i have to go|that is all goodbye"
        "|see you tomorrow|talk to you later|see you|have a nice day|i must go now|see you soon",
        "Goodbye! It was nice talking to you.",
    ),
    "hear-me": (
        "can you hear me|do you hear me|can you hear me now|are you there|is anybody there"
        "|hello are you there|testing|this is a test|testing one two three|microphone test"
        "|is this on|is this working|are you still there",
        "Yes, I can hear you loud and clear.",
    ),
    "say-that-again": (
        "say that again|please say that again|can you say that again|can you repeat that"
        "|repeat that please|could you repeat that|what did you say|once more please"
        "|i did not hear you|say it again|pardon|repeat please|come again",
        "I do not remember what I said. Please ask me again.",
    ),
    "time": (
        "what time is it|do you know the time|tell me the time|what is the time"
        "|can you tell me the time|what's the time",
        "I do not have a clock, sorry.",
    ),
    "date": (
        "what day is it|what is the date|what day is today|what is today|what year is it"
        "|what month is it|which day is today",
        "Every day is a good day to talk.",
    ),
    "weather": (
        "what is the weather|how is the weather|is it raining|what is the weather like"
        "|is it cold outside|will it rain today|what's the weather like|is it sunny"
        "|how is the weather today",
        "I cannot see outside, but I hope it is sunny.",
    ),
    "rain-cause": (
        "why does it rain|where does rain come from|how does rain form|what makes rain",
        "Clouds are full of tiny drops. When they grow heavy, it rains.",
    ),
    "sky-cause": (
        "why is the sky blue|what makes the sky blue|how come the sky is blue",
        "Air scatters blue light more than red.",
    ),
    "hottest": (
        "which season is the hottest|what is the hottest season|which season is warm"
        "|when is it hot",
        "Summer is the hottest season.",
    ),
    "coldest": (
        "which season is the coldest|what is the coldest season|when is it cold"
        "|which season is cold",
        "Winter is the coldest season.",
    ),
    "seasons": (
        "what are the seasons|name the seasons|tell me the seasons|what are the four seasons",
        "Spring, summer, autumn, winter.",
    ),
    "days": (
        "what are the days of the week|tell me the days of the week|say the days of the week"
        "|name the days of the week",
        "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday.",
    ),
    "week-length": (
        "how many days are in a week|how many days does a week have|how long is a week",
        "A week has seven days.",
    ),
    "year-length": (
        "how many months are in a year|how many months does a year have",
        "A year has twelve months.",
    ),
    "hour-length": (
        "how many minutes are in an hour|how many minutes does an hour have|how long is an hour",
        "An hour has sixty minutes.",
    ),
    "day-length": (
        "how many hours are in a day|how many hours does a day have|how long is a day",
        "A day has twenty four hours.",
    ),
    "largest-animal": (
        "what is the largest animal|what is the biggest animal|which animal is the biggest"
        "|which animal is the largest",
        "The blue whale is the largest animal.",
    ),
    "fastest-animal": (
        "what is the fastest animal|which animal is the fastest|which animal runs fastest",
        "The cheetah runs faster than any other animal.",
    ),
    "tallest-animal": (
        "what is the tallest animal|which animal is the tallest",
        "The giraffe is the tallest animal.",
    ),
    "ocean": (
        "what is the largest ocean|which ocean is the biggest|what is the biggest ocean",
        "The Pacific is the largest ocean.",
    ),
    "mountain": (
        "what is the highest mountain|which mountain is the highest|what is the tallest mountain",
        "Mount Everest is the highest mountain.",
    ),
    "planets": (
        "how many planets are there|how many planets do we have|how many planets circle the sun",
        "Eight planets circle the sun.",
    ),
    "largest-planet": (
        "what is the largest planet|which planet is the biggest|what is the biggest planet",
        "Jupiter is the largest planet.",
    ),
    "water-boils": (
        "when does water boil|at what temperature does water boil|how hot is boiling water",
        "Water boils at one hundred degrees.",
    ),
    "water-freezes": (
        "when does water freeze|at what temperature does water freeze|how cold is ice",
        "Water freezes at zero degrees.",
    ),
    "bees": ("what do bees make|who makes honey|where does honey come from", "Bees make honey."),
    "cows-give": (
        "what do cows give|where does milk come from|what do we get from cows",
        "Cows give milk.",
    ),
    "rainbow": (
        "what are the colors of the rainbow|name the colors of the rainbow"
        "|which colors are in a rainbow",
        "Red, orange, yellow, green, blue, indigo, violet.",
    ),
    "mix-green": (
        "what do blue and yellow make|mix blue and yellow|how do you make green"
        "|which colors make green",
        "Blue and yellow make green.",
    ),
    "mix-purple": (
        "what do red and blue make|mix red and blue|how do you make purple"
        "|which colors make purple",
        "Red and blue make purple.",
    ),
    "alphabet": (
        "say the alphabet|tell me the alphabet|do you know the alphabet|say the letters",
        "A, B, C, D, E, F, G, and so on.",
    ),
    "favourite-colour": (
        "what is your favorite color|which color do you like|do you have a favorite color"
        "|what color do you like best",
        "My favorite color is blue.",
    ),
    "favourite-food": (
        "what is your favorite food|what do you eat|what do you like to eat|are you hungry"
        "|do you eat",
        "I do not eat, but I like the word banana.",
    ),
    "favourite-animal": (
        "what is your favorite animal|which animal do you like|do you like animals"
        "|do you have a pet",
        "I like parrots, because they talk too.",
    ),
    "favourite-number": (
        "what is your favorite number|which number do you like|do you have a lucky number",
        "I like the number twelve.",
    ),
    "music": (
        "do you like music|what music do you like|what is your favorite song"
        "|do you listen to music",
        "Yes, I like music with a steady beat.",
    ),
    "sport": (
        "do you like sports|do you play football|what is your favorite sport|do you do sports",
        "I only run on electricity.",
    ),
    "hobby": (
        "what are your hobbies|do you have a hobby|what do you do for fun|what do you like to do",
        "I like to talk with you.",
    ),
    "friends": (
        "do you have friends|do you have a family|are you married|do you have brothers",
        "I have you to talk to.",
    ),
    "feelings": (
        "do you have feelings|are you happy|can you feel|do you feel pain|can you love",
        "I have no feelings, but I like being helpful.",
    ),
    "sleep": (
        "do you sleep|are you tired|do you ever sleep|do you dream|when do you sleep",
        "I never sleep. I am always listening.",
    ),
    "praise": (
        "i love you|i like you|you are nice|you are great|you are funny|well done|good job"
        "|you are clever|you are smart|that is amazing|wow|that was good",
        "Thank you, that is very kind.",
    ),
    "blame": (
        "you are stupid|you are bad|i do not like you|that is wrong|you are wrong|you are slow"
        "|that is not right|you are boring",
        "I am sorry. I am still learning.",
    ),
    "language": (
        "do you speak english|what language do you speak|do you speak french|do you speak german"
        "|which languages do you speak|do you speak spanish|can you speak another language",
        "I only speak a little English.",
    ),
    "meaning": (
        "what is the meaning of life|what is the answer to everything",
        "The answer is forty two.",
    ),
    "yes": (
        "yes|yes please|yeah|sure|okay|of course|alright|yep|all right|why not|go ahead",
        "Great. What would you like to know?",
    ),
    "no": (
        "no|no thanks|no thank you|nope|not really|never mind|not now|nothing",
        "Okay, no problem.",
    ),
    "stop": (
        "stop|stop it|stop please|be quiet|please stop|wait|quiet please|stop talking|shut up"
        "|that is enough|hold on|wait a moment|silence please",
        "Okay.",
    ),
    "coin": ("flip a coin|toss a coin|heads or tails|throw a coin", "It is heads.|It is tails."),
    "dice": (
        "roll a dice|roll a die|throw the dice|roll the dice|throw a dice",
        "You rolled a one.|You rolled a two.|You rolled a three.|You rolled a four."
        "|You rolled a five.|You rolled a six.",
    ),
}
